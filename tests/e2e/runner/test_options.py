"""Which command lines the runner takes, and what it says about the others."""

import json
import re
import shutil

import pytest

import cross_backend
from tests.e2e.runner.bundles import PORTABLE, QUICK, XNNPACK

NUM_RUNS = "--num-runs must be a whole number from 1 to 10000000, not '{}'."
SECONDS = "--seconds must be a positive number, not '{}'."


@pytest.mark.parametrize(
    ("args", "message"),
    [
        *((("--num-runs", text), NUM_RUNS) for text in ("0", "-5", "10000001", "many", "60x", "6.5", "1e2", "0x10")),
        *((("--num-runs", text), NUM_RUNS) for text in ("", " 60", "6-0", "9" * 30, "-" + "9" * 400, "inf")),
        *(
            (("--seconds", text), SECONDS)
            for text in ("0", "-1", "1s", "nan", "inf", "1e999", "1e-999", "0x1", "", " 1")
        ),
        (("--seconds=1,5",), "--seconds must be a positive number, not '1,5'."),
        (("--threads", "1025"), "--threads must be a whole number from 1 to 1024, not '1025'."),
        (("--warmup", "-1"), "--warmup must be a whole number from 0 to 1000000, not '-1'."),
        (("--timeout", "soon"), "--timeout must be a positive number, not 'soon'."),
        (("--num-runs",), "--num-runs lacks its value, a whole number from 1 to 10000000."),
        (("--num_runs", "0"), "--num_runs must be a whole number from 1 to 10000000, not '0'."),
        (("--iterations", "0"), "--iterations must be a whole number from 1 to 10000000, not '0'."),
        (("--num-runs", "1", "--iterations=2"), "--iterations is given twice, the second time as '2'."),
        (("--model-path", "more"), "--model-path is given twice, the second time as 'more'."),
        (("--seconds=",), "--seconds lacks its value, a positive number."),
        (("--threads", "--json"), "--threads lacks its value, a whole number from 1 to 1024."),
        (("--platform",), "--platform lacks its value, NAME."),
        (("--only", "--json"), "--only lacks its value, NAME."),
        (("--only", "--", "name"), "--only lacks its value, NAME."),
        (("--threads", "1", "--threads=2"), "--threads is given twice, the second time as '2'."),
        (("--platform", "a", "--platform", "a"), "--platform is given twice, the second time as 'a'."),
        (("--json=1",), "--json takes no value, but has '1'."),
        (("--colour",), "there is no option --colour; see --help."),
        (("--iter", "5"), "there is no option --iter; see --help."),
        (("-j",), "there is no option -j; see --help."),
        (("more",), "BUNDLE|FILE is given twice, the second time as 'more'."),
        (("--json", "--", "--json"), "BUNDLE|FILE is given twice, the second time as '--json'."),
    ],
)
def test_wrong_option(args, message, sound, refused):
    assert refused(sound, *args) == f"cross_backend_runner: {message.format(args[-1])}\n"


def test_control_characters_of_an_option_are_not_printed(sound, refused):
    refused(sound, "--a\x1b[31m\nb", words=(r"there is no option --a\x1b[31m b",))


def test_no_bundle(tmp_path, refused):
    refused(words=("BUNDLE|FILE is required",))
    refused("--json", "--only", "name", words=("BUNDLE|FILE is required",))
    refused("", words=("does not exist",))
    refused(tmp_path / "nowhere", words=("does not exist",))
    refused(tmp_path, words=("manifest.json",))
    (tmp_path / "bundle.zip").write_bytes(b"PK")
    refused(tmp_path / "bundle.zip", words=("unpacked",))


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (("{}", "--only=" + PORTABLE), [PORTABLE]),
        (("--only", PORTABLE, "{}"), [PORTABLE]),
        (("--only", PORTABLE, XNNPACK, "--plain", "--plain", "{}"), [PORTABLE, XNNPACK]),
        (("--only", PORTABLE, "--only", XNNPACK, "--", "{}"), [PORTABLE, XNNPACK]),
        (
            ("{}", "--only=" + XNNPACK, PORTABLE, "--threads=+1", "--seconds", ".5e1", "--timeout=9e1"),
            [PORTABLE, XNNPACK],
        ),
        (("--platform", "", "--warmup=0", "--only", PORTABLE, "--", "{}"), [PORTABLE]),
    ],
)
def test_right_options(args, names, sound, runner):
    result = runner("--json", *QUICK, *(one.format(sound) for one in args))
    assert result.returncode == 0, result.stderr
    assert {row["name"] for row in json.loads(result.stdout)["results"]} == set(names)


def test_bundle_whose_name_looks_like_an_option(sound, runner, tmp_path, monkeypatch):
    shutil.copytree(sound, tmp_path / "--json")
    monkeypatch.chdir(tmp_path)
    result = runner("--only", PORTABLE, *QUICK, "--json", "--", "--json")
    assert result.returncode == 0, result.stderr
    assert [row["outcome"] for row in json.loads(result.stdout)["results"]] == ["OK"]


def test_help_and_version(runner):
    shown = runner("--help")
    assert shown.returncode == 0
    options = ("num-runs", "warmup", "seconds", "threads", "timeout", "only", "platform", "json", "plain", "version")
    options += ("profile", "bundled-program", "serve", "lease")
    assert all(f"\n  --{name} " in shown.stdout for name in options)
    assert "\n  BUNDLE|FILE " in shown.stdout
    assert "maximum number of timed calls (default: 1000)" in shown.stdout
    assert shown.stderr == ""
    assert all(len(line) <= 120 for line in shown.stdout.splitlines())
    for args in (("-h",), ("--num-runs", "7", "--help"), ("--colour", "--help"), ("-h", "--version")):
        assert runner(*args).stdout == shown.stdout
    version = runner("--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith(f"cross_backend_runner {cross_backend.__version__}")
    assert runner("nowhere", "--", "--help").returncode == 2


def test_same_options_have_the_same_words_as_those_of_the_command(runner, cli):
    theirs = " ".join(cli("run", "--help", COLUMNS="100").stdout.split())
    rows = re.findall(r"(?m)^  (--[a-z-]+)(?: [A-Z]+)?(?: \.\.\.)? +(.*)$", runner("--help").stdout)
    same = {name: words for name, words in rows if re.search(rf" {name}[ ,]", theirs) and name != "--platform"}
    wanted = {"--profile", "--bundled-program", "--num-runs", "--seconds", "--threads", "--timeout", "--json"}
    assert set(same) == wanted
    for name, words in same.items():
        assert words in theirs, name
