"""What `cross-backend serve` costs a request over `session.bind(x)()`, what 64 clients see, and whether memory grows.

    python benchmarks/serve_overhead.py [FOLDER] [--rounds 60] [--seconds 60] [--requests 10000]

FOLDER holds exports of mobilenet_v3_small with onnxruntime.cpu; where it is not given, one is made. A request is a JPEG
of 224×224 in, the five likeliest classes out, over one kept connection, by a socket of its own: Python's HTTP client
alone would take 0.3 ms. A round is 25 requests, and 25 calls of the same session in this process; the difference of
their medians is what a request costs more. The table also has the quietest and the loudest tenth of the rounds, because
neighbours on a virtual machine use its caches at times, and CPU time.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil

import cross_backend as xb

MODEL, TARGET = "mobilenet_v3_small", "onnxruntime.cpu"
CLIENTS = 64
X = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if args.folder is None:
            args.folder = Path(made)
            export = ["export", MODEL, "--backends", TARGET, "--output-dir", made]
            subprocess.run([sys.executable, "-m", "cross_backend", *export], check=True, capture_output=True)
        _serve(args)


def _serve(args: argparse.Namespace) -> None:
    command = [sys.executable, "-m", "cross_backend", "serve", str(args.folder), "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[1].removeprefix("http://").rstrip("/")
            _measure(args, address, psutil.Process(process.pid))
        finally:
            process.terminate()


def _measure(args: argparse.Namespace, address: str, process: psutil.Process) -> None:
    request = _request(address)
    print(f"first page: {_page_bytes(address) / 1e3:.0f} kB with all that it asks for")
    connection = _connected(address)
    with _opened(args.folder) as session:
        for _ in range(50):
            _ask(connection, request)
            _session_ms(session)
        spent = _cpu_s(process)
        rounds = [([_ask(connection, request) for _ in range(25)], [_session_ms(session) for _ in range(25)])
                  for _ in range(args.rounds)]  # fmt: skip
    used = [(after - before) * 1e3 / (25 * args.rounds) for before, after in zip(spent, _cpu_s(process), strict=True)]
    took = [statistics.median(one for one, _ in asked) for asked, _ in rounds]
    inside = statistics.median(one for asked, _ in rounds for _, one in asked)
    alone = [statistics.median(called) for _, called in rounds]
    more = sorted(one - other for one, other in zip(took, alone, strict=True))
    print(f"session.bind(x)(): {statistics.median(alone):.2f} ms; inside of the server's bench: {inside:.2f} ms")
    print(f"one client: P50 {statistics.median(took):.2f} ms, so a request costs {statistics.median(more):.2f} ms more "
          f"(the quietest tenth of {args.rounds} rounds: {more[len(more) // 10]:.2f}, "
          f"the loudest: {more[-1 - len(more) // 10]:.2f})")  # fmt: skip
    print(f"CPU time of a request: server {used[0]:.2f} ms, worker {sum(used[1:]):.2f} ms")
    before = _rss(process)
    done, failed = _many(address, request, args.seconds)
    cuts = statistics.quantiles(done, n=100)
    rate = len(done) / args.seconds
    print(f"{CLIENTS} clients, {args.seconds:g} s: {rate:.0f} requests/s, {failed} failed, P50 {cuts[49]:.1f} ms, "
          f"P99 {cuts[98]:.1f} ms = {cuts[98] / cuts[49]:.2f} × P50")  # fmt: skip
    start, connection = _rss(process), _connected(address)  # one that waited so long was closed
    for _ in range(args.requests):
        _ask(connection, request)
    end = _rss(process)
    print(f"memory of the server and its worker: {before / 1e6:.0f} MB, {start / 1e6:.0f} MB after that, "
          f"{end / 1e6:.0f} MB after {args.requests} requests more ({(end / start - 1) * 100:+.1f} %)")  # fmt: skip


def _request(address: str) -> bytes:
    """Return a run of a picture, as it is sent."""
    from PIL import Image

    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/api/token")
    token = json.loads(connection.getresponse().read())["token"]
    connection.request("GET", "/api/models")
    models = {one["name"]: one["backends"] for one in json.loads(connection.getresponse().read())["models"]}
    key = next(row["artifact"] for row in models[MODEL] if row["target"].startswith(TARGET) and not row["reason"])
    file = io.BytesIO()
    smooth = np.kron(np.random.default_rng(0).integers(0, 255, (14, 14, 3)), np.ones((16, 16, 1))).astype(np.uint8)
    Image.fromarray(smooth).save(file, "JPEG", quality=90)
    picture = file.getvalue()
    head = f"POST /api/run?artifact={key}&name=a.jpg HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(picture)}\r\n"
    return f"{head}X-Cross-Backend-Token: {token}\r\n\r\n".encode() + picture


def _connected(address: str) -> socket.socket:
    """Return a connection that sends at once."""
    host, _, port = address.partition(":")
    made = socket.create_connection((host, int(port)), timeout=60)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _ask(connection: socket.socket, request: bytes) -> tuple[float, float]:
    """Return (end to end, inside of the bench) of one request, ms."""
    began = time.perf_counter()
    connection.sendall(request)
    taken = b""
    while b"\r\n\r\n" not in taken:
        taken += _received(connection)
    said, _, answer = taken.partition(b"\r\n\r\n")
    length = int(said.lower().partition(b"content-length:")[2].split()[0])
    while len(answer) < length:
        answer += _received(connection)
    took = (time.perf_counter() - began) * 1e3
    (run,) = json.loads(answer)["runs"]
    assert run["outcome"] == "OK" and len(run["shown"]["top"]) == 5, answer
    return took, run["inference_ms"]


def _received(connection: socket.socket) -> bytes:
    piece = connection.recv(1 << 16)
    if not piece:
        raise ConnectionError("the server closed the connection")
    return piece


def _opened(folder: Path) -> xb.Session:
    """Return the session in this process."""
    artifact = next(p for p in folder.glob(f"{MODEL}_*.json") if json.loads(p.read_text())["target"].startswith(TARGET))
    return xb.load(artifact, threads=1)


def _session_ms(session: xb.Session) -> float:
    """Return the duration of binding and calling in this process once, ms."""
    began = time.perf_counter()
    session.bind((X,))()
    return (time.perf_counter() - began) * 1e3


def _many(address: str, request: bytes, seconds: float) -> tuple[list[float], int]:
    """Return the durations of all clients' requests, ms, and how many failed."""
    done: list[float] = []
    failed = [0]
    end = time.perf_counter() + seconds

    def client() -> None:
        connection = _connected(address)
        while time.perf_counter() < end:
            try:
                done.append(_ask(connection, request)[0])
            except (OSError, AssertionError):
                failed[0] += 1

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done, failed[0]


def _page_bytes(address: str) -> int:
    """Return the bytes of the first page and of what it names."""
    import re

    connection, total = http.client.HTTPConnection(address), 0
    names = ["/", "/static/inputs.js", "/static/overlay.js"]
    while names:
        connection.request("GET", names.pop())
        text = connection.getresponse().read()
        total += len(text)
        names += re.findall(r'(?:src|href)="(/static/[^"]+)"', text.decode())
    return total


def _cpu_s(process: psutil.Process) -> list[float]:
    """Return the CPU seconds of the server and of its workers until now."""
    return [sum(one.cpu_times()[:2]) for one in (process, *process.children())]


def _rss(process: psutil.Process) -> int:
    return sum(one.memory_info().rss for one in (process, *process.children()))


if __name__ == "__main__":
    main()
