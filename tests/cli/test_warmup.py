"""`manyclass warmup` compiles in processes of their own."""

import pytest
from typer.testing import CliRunner

from manyclass.cli import warmup
from manyclass.cli.errors import CommandError
from manyclass.cli.main import app


def test_it_names_what_it_compiled(monkeypatch):
    done = []
    monkeypatch.setattr(warmup, "_compile_apart", lambda task: done.append(task) or 1.25)
    told = CliRunner().invoke(app, ["warmup", "recall-tree", "lom-tree", "--threads", "2"])
    assert told.exit_code == 0
    assert sorted(done) == [(name, kind) for name in ("lom-tree", "recall-tree") for kind in ("dense", "sparse")]
    assert "recall-tree, sparse inputs: 1.2 s" in told.output


def test_an_unknown_algorithm_is_told():
    told = CliRunner().invoke(app, ["warmup", "oak"])
    assert told.exit_code != 0
    assert "oak" in str(told.exception)


def test_a_compilation_that_fails_is_told():
    with pytest.raises(CommandError, match="compiling lom-tree for wooden inputs failed"):
        warmup._compile_apart(("lom-tree", "wooden"))


@pytest.mark.parametrize("kind", warmup.INPUTS)
def test_one_algorithm_is_called_from_end_to_end(kind):
    warmup.compile_one("one-against-all", kind)
