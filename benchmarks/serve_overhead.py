"""What `cross-backend serve` costs a request over `session.bind(x)()`, what 64 clients see, and whether memory grows.

    python benchmarks/serve_overhead.py FOLDER [--seconds 60] [--requests 10000]

FOLDER holds exports of mobilenet_v3_small with onnxruntime.cpu. A request is a JPEG of 224×224 in, the five likeliest
classes out, over one kept connection, by a socket of its own: Python's HTTP client alone would take 0.3 ms. The same
session is timed in this process, before and after, on the same input. CPU time is told beside: that of the server and
of its worker does not depend on what else the machine does.
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
import threading
import time
from pathlib import Path

import numpy as np
import psutil

import cross_backend as xb

MODEL, TARGET = "mobilenet_v3_small", "onnxruntime.cpu"
CLIENTS = 64


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=10_000)
    args = parser.parse_args()
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
    alone = [_session_ms(args.folder)]
    connection = _connected(address)
    for _ in range(50):
        _ask(connection, request)
    spent = _cpu_s(process)
    took, inside = zip(*(_ask(connection, request) for _ in range(500)), strict=True)
    used = [(after - before) * 1e3 / len(took) for before, after in zip(spent, _cpu_s(process), strict=True)]
    alone.append(_session_ms(args.folder))
    session, p50 = statistics.median(alone), statistics.median(took)
    print(f"session.bind(x)(): {session:.2f} ms; inside of the server's bench: {statistics.median(inside):.2f} ms")
    print(f"one client: P50 {p50:.2f} ms, so a request costs {p50 - session:.2f} ms more")
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


def _session_ms(folder: Path) -> float:
    """Return the median of binding and calling in this process, ms."""
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    artifact = next(p for p in folder.glob(f"{MODEL}_*.json") if json.loads(p.read_text())["target"].startswith(TARGET))
    with xb.load(artifact, threads=1) as session:
        took = []
        for _ in range(300):
            began = time.perf_counter()
            session.bind((x,))()
            took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took[50:])


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
