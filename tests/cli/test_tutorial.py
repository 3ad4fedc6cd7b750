"""The commands of "Getting started" work as printed."""

import re
import shlex
import shutil
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "getting_started.md").read_text(encoding="utf-8")


def test_three_commands_lead_from_a_table_to_predictions(call):
    for name in ("questions.csv", "new_questions.csv"):
        shutil.copy(DOCS / "tutorial" / name, name)
    commands = re.findall(r"```console\n\$ manyclass (.*?)\n```", TEXT, re.S)
    assert len(commands) == 3
    for command in commands:
        result = call(*shlex.split(command))
        assert result.code == 0, result.err
    header, *lines = [line.split("\t") for line in result.out.splitlines()]
    assert header[:4] == ["question", "predicted_1", "probability_1", "predicted_2"]
    assert [line[1] for line in lines] == ["delivery", "payment", "size", "account"]
    assert lines[0][0] == "my parcel is at the wrong address"
    assert all(len(line) == 8 and 0 < float(line[2]) <= 1 for line in lines)


def test_options_in_the_text_exist(call):
    helps = "".join(call(name, "--help").out for name in ("train", "evaluate", "predict", "convert", "tune"))
    options = set(re.findall(r"--[a-z][a-z-]+", TEXT))
    assert "--resume" in options and not [option for option in options if option not in helps]
