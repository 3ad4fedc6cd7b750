"""`manyclass demo` on a small part of its data."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from manyclass.cli import demo
from manyclass.cli.main import app
from manyclass.datasets import load_wordnet


@pytest.fixture
def small(monkeypatch):
    """WordNet with 600 and 100 rows, as the demonstration reads it."""
    data = load_wordnet()
    train, test = np.arange(600) * 91, np.arange(100) * 119
    part = replace(
        data, X_train=data.X_train[train], y_train=data.y_train[train],
        X_test=data.X_test[test], y_test=data.y_test[test],
    )  # fmt: skip
    monkeypatch.setattr(demo, "load_wordnet", lambda: part)
    monkeypatch.setattr(demo, "out", Console(width=100))
    return part


def test_demo_compares_answers_and_draws(small, capsys):
    asked = "a bird with long wings"
    demo.run(1, 0, [asked, "qqq zzz"])
    told = capsys.readouterr().out
    assert "600 definitions to learn, 100 to test" in told
    assert "label tree" in told and "one-against-all" in told and "More right answers" in told
    assert f'"{asked}"' in told and '"qqq zzz": none of these words' in told
    assert "The tree's first branches, and the way to" in told


def test_the_way_ends_at_the_leaf_of_the_label(small):
    model = demo.LabelTreeClassifier(n_epochs=1, random_state=0).fit(small.X_train, small.y_train)
    names = np.array([f"<{number}>" for number in range(len(small.label_names))])
    shown = int(model.classes_[7])
    picture = demo._picture(model, names, np.ones(len(names)), shown, n_labels=1)
    console = Console(width=10_000)
    with console.capture() as captured:
        console.print(picture)
    lines = captured.get().splitlines()
    whole = [line for line in lines[1:] if "…" not in line]
    assert len(whole) == 1 and f"<{shown}>" in whole[0]


def test_help_names_the_command():
    told = CliRunner().invoke(app, ["--help"])
    assert told.exit_code == 0 and "demo" in told.output
