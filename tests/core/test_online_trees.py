"""What the LOM tree and the MLOM tree share: estimates of memory, balance, options of old files."""

from pathlib import Path

import numpy as np
import pytest

from manyclass import LomTreeClassifier, MlomTreeClassifier, load_model

MODELS = Path(__file__).parent / "models"
LOM, MLOM = LomTreeClassifier, MlomTreeClassifier
# (rows, features, classes) of public data sets, options, and n_bytes_ after training with random_state=0
TRAINED = [
    ("isolet", (6238, 617, 26), LOM(n_epochs=1), 1_463_812),
    ("isolet", (6238, 617, 26), LOM(), 5_585_412),
    ("isolet", (6238, 617, 26), MLOM(), 6_224_404),
    ("isolet", (6238, 617, 26), MLOM(n_epochs=1, guests=False), 750_100),
    ("aloi", (97_200, 128, 1000), LOM(n_epochs=1), 37_814_880),
    ("aloi", (97_200, 128, 1000), LOM(), 151_257_696),
    ("aloi", (97_200, 128, 1000), MLOM(n_epochs=1), 49_611_376),
    ("aloi", (97_200, 128, 1000), MLOM(n_epochs=1, guests=False), 18_514_544),
    ("wordnet", (54_992, 38_102, 4796), LOM(n_epochs=1), 1_109_578_680),
    ("wordnet", (54_992, 38_102, 4796), LOM(), 1_225_151_416),
    ("wordnet", (54_992, 38_102, 4796), MLOM(), 1_318_474_696),
]


@pytest.mark.parametrize(("name", "sizes", "model", "n_bytes"), TRAINED)
def test_memory_of_public_sets_is_estimated_within_a_factor_of_two(name, sizes, model, n_bytes):
    n_rows, n_features, n_classes = sizes
    estimate = model.estimate_memory(n_features, n_classes, sparse=name == "wordnet", n_rows=n_rows)
    assert 0.5 <= estimate / n_bytes <= 2.0


@pytest.mark.parametrize("kind", [LOM, MLOM])
def test_memory_grows_with_rows_up_to_the_limit_of_nodes(kind):
    model = kind(nodes_per_class=8)
    sizes = [model.estimate_memory(50, 500, n_rows=n) for n in (1, 1000, 10_000, 10**6, 10**12)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[3] < 3 * sizes[2]
    with pytest.raises(ValueError, match="n_rows must be an integer of at least 1, got 0"):
        model.estimate_memory(50, 500, n_rows=0)


@pytest.mark.parametrize("kind", [LOM, MLOM])
def test_balance_counts_nodes_leaves_classes_and_rows(kind, blobs):
    X, y = blobs
    model = kind(random_state=0, n_epochs=2, split_mass=0).fit(X, y)
    levels = model.balance()
    nodes = model.tree_table()
    assert [level["depth"] for level in levels] == list(range(len(levels)))
    assert sum(level["nodes"] for level in levels) == len(nodes)
    assert levels[0]["classes"] == [12] and levels[0]["mass"] == [2.0 * len(y)]
    assert sum(level["leaves"] for level in levels) == (len(nodes) + 1) // 2
    assert model.balance(max_depth=1) == levels[:2]


@pytest.mark.parametrize("name", ["lom-tree", "mlom-tree", "mlom-tree-guests"])
def test_an_old_file_without_a_depth_limit_has_the_default(name):
    model = load_model(MODELS / f"format-1-{name}.model")
    assert model.max_depth == "auto" and model._options.max_depth == 60
    X = np.ones((3, model.n_features_in_), np.float32)
    assert model.partial_fit(X, model.classes_[:3]).predict(X).shape == (3,)


@pytest.mark.parametrize("kind", [LOM, MLOM])
def test_max_depth_is_a_number_or_auto(kind, blobs):
    with pytest.raises(ValueError, match="max_depth must be an integer from 0 to 60 or 'auto', got None"):
        kind(max_depth=None).fit(*blobs)
    shallow = kind(max_depth=2, n_epochs=1, split_mass=0, random_state=0).fit(*blobs)
    assert len(shallow.balance()) == 3
