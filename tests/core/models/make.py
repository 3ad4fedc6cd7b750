"""Make the model files of the present format that are not there yet, when it is released: python make.py"""

import json
from pathlib import Path

import numpy as np

from manyclass import (
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
    load_model,
)
from manyclass.core.files import FORMAT_VERSION

FOLDER = Path(__file__).parent


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)).astype(np.float32)
    y = np.array([f"label {i}" for i in range(14)])[rng.integers(0, 14, 80)]
    sparse = np.where(rng.random((80, 60)) < 0.1, rng.normal(size=(80, 60)), 0).astype(np.float32)
    several = (rng.random((80, 9)) < 0.3).astype(np.int8)
    made = {
        "recall-tree": RecallTreeClassifier(n_epochs=2, path_features="bias", random_state=0).fit(X, y),
        "one-against-all": OneAgainstAllClassifier(n_epochs=2, random_state=0).fit(X, y),
        "label-tree": LabelTreeClassifier(arity=4, n_epochs=2, random_state=0).fit(X, y),
        "label-tree-several": LabelTreeClassifier(arity=4, n_epochs=2, random_state=0).fit(X, several),
        "label-tree-online": LabelTreeClassifier(arity=4, random_state=0, replay=False).partial_fit(sparse, y),
        "lom-tree": LomTreeClassifier(n_epochs=2, split_mass=0, random_state=0).fit(X, y),
        "mlom-tree": MlomTreeClassifier(guests=False, n_epochs=2, random_state=0).fit(X, y),
        "mlom-tree-guests": MlomTreeClassifier(n_epochs=2, random_state=0).fit(X, y),
        "spectral-tree": SpectralTreeClassifier(n_candidates=5, n_epochs=2, random_state=0).fit(X, y),
        "spectral-tree-several": SpectralTreeClassifier(
            n_candidates=4, n_trees=2, beam=2, n_epochs=2, random_state=0
        ).fit(X, several),
    }
    for name, model in made.items():
        for slim, precision in ((False, "float32"), (True, "float32"), (True, "float16"), (True, "int8")):
            kind = f"{'-slim' if slim else ''}{'' if precision == 'float32' else '-' + precision}"
            path = FOLDER / f"format-{FORMAT_VERSION}-{name}{kind}.model"
            if path.exists():
                continue  # files of a released format are never made again
            model.save(path, slim=slim, precision=precision)
            asked = (sparse if model.n_features_in_ == 60 else X)[:6]
            labels, scores = load_model(path).predict_topk(asked, 3)  # rounded, they may differ from the model's
            expected = {"X": asked.tolist(), "labels": labels.tolist(), "scores": scores.tolist()}
            path.with_suffix(".json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
