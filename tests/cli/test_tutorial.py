"""The tutorial's commands, run as they stand."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from manyclass.cli.main import app

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"


def test_three_commands_lead_from_a_table_to_answers(tmp_path, monkeypatch):
    for name in ("questions.csv", "new_questions.csv"):
        shutil.copy(TUTORIAL / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"```console\n\$ manyclass (.*?)\n```", (TUTORIAL / "README.md").read_text(), re.S)
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, result.output
    answers = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[0] for line in answers] == ["delivery", "payment", "size", "account"]
    assert all(len(line) == 6 and 0 < float(line[1]) <= 1 for line in answers)


@pytest.mark.parametrize(
    "command", ["--start-from", "--in-memory", "--checkpoint-every", "--resume", "--prune", "--precision"]
)
def test_what_the_tutorial_names_there_is(command):
    helps = [CliRunner().invoke(app, [name, "--help"]).output for name in ("train", "convert")]
    assert any(command in text for text in helps)
