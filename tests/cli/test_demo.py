"""`manyclass demo` on a small part of its data."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from manyclass.cli import demo
from manyclass.datasets import load_wordnet

pytestmark = pytest.mark.slow  # compiles the batch training of the label tree


@pytest.fixture
def small(monkeypatch):
    """Replace WordNet by 600 training and 100 test rows of it."""
    data = load_wordnet()
    train, test = np.arange(600) * 91, np.arange(100) * 119
    part = replace(
        data, X_train=data.X_train[train], y_train=data.y_train[train],
        X_test=data.X_test[test], y_test=data.y_test[test],
    )  # fmt: skip
    monkeypatch.setattr(demo, "load_wordnet", lambda: part)
    monkeypatch.setattr(demo, "out", Console(width=100))
    return part


def test_demo_compares_predicts_and_draws(call, small):
    sentence = "a bird with long wings"
    result = call("demo", "--epochs", 1, "--ask", sentence, "--ask", "qqq zzz")
    assert result.code == 0 and "600 training and 100 test" in result.out
    assert "label tree" in result.out and "one-against-all" in result.out and "accuracy" in result.out
    assert f'"{sentence}"' in result.out and '"qqq zzz": none of these words' in result.out
    assert "Top of the tree and the path to" in result.out


def test_the_path_ends_at_the_leaf_of_the_label(small):
    model = demo.LabelTreeClassifier(n_epochs=1, random_state=0).fit(small.X_train, small.y_train)
    names = np.array([f"<{number}>" for number in range(len(small.label_names))])
    label = int(model.classes_[7])
    console = Console(width=10_000)
    with console.capture() as captured:
        console.print(demo._tree(model, names, label, n_labels=1))
    leaves = [line for line in captured.get().splitlines()[1:] if "..." not in line]
    assert len(leaves) == 1 and f"<{label}>" in leaves[0]
