"""The command ``toolchain``: its table, and wrong usage; installing is tested in tests/unit/test_toolchains.py."""

import json


def test_list_is_one_document(cli):
    result = cli("toolchain", "list", "--json")
    assert result.returncode == 0, result.stderr
    rows = {row["name"]: row for row in json.loads(result.stdout)["toolchains"]}
    assert {"ethos_u", "mps", "openvino_delegate"} <= set(rows)
    assert rows["mps"]["pins"]["executorch"] == "1.4.1"


def test_list_is_a_table(cli):
    result = cli("toolchain", "list")
    assert result.returncode == 0 and "executorch 1.4.1" in result.stdout


def test_unknown_toolchain(cli, usage_error):
    usage_error(cli("toolchain", "add", "mp"), "'mp'", "Did you mean 'mps'")


def test_a_name_is_needed(cli, usage_error):
    usage_error(cli("toolchain", "remove"), "mps")
