"""One row at a time on ALOI: through the estimator, the unchecked predictor, and scikit-learn's SGDClassifier."""

from functools import partial

import numpy as np
from report import load_or_skip, parse, publish
from sklearn.linear_model import SGDClassifier

from benchmarks.origin import machine
from benchmarks.timing import seconds_of_one_row
from manyclass import OneAgainstAllClassifier, RecallTreeClassifier
from manyclass.core.inputs import Dense
from manyclass.recall_tree import model as recall_tree

EXTRA: dict = {}


def _call(kernel, row) -> None:
    kernel(Dense(row))


def main() -> None:
    args = parse(__doc__, **EXTRA)
    X, y, X_test, _ = load_or_skip("aloi")
    X, X_test = X.toarray().astype(np.float32), X_test.toarray().astype(np.float32)
    step = 20 if args.quick else 1
    told = {}
    peer = SGDClassifier(max_iter=1, tol=None, random_state=0).fit(X[::20], y[::20])
    told["scikit-learn SGDClassifier.predict"] = base = seconds_of_one_row(peer.predict, X_test)
    for name, options in (("defaults", {}), ("one path", {"beam": 1})):
        model = RecallTreeClassifier(random_state=0, n_epochs=1, **options).fit(X[::step], y[::step])
        told[f"Recall Tree, {name}: predict"] = seconds_of_one_row(model.predict, X_test)
        told[f"Recall Tree, {name}: predictor (bar 40)"] = seconds_of_one_row(model.predictor(), X_test)
        kernel = recall_tree.predict_one(model._prediction_options(), model._state, 1, len(model.classes_))
        told[f"Recall Tree, {name}: kernel call (bar 20)"] = seconds_of_one_row(partial(_call, kernel), X_test)
    flat = OneAgainstAllClassifier(random_state=0, n_epochs=1).fit(X[::20], y[::20])
    told["one-against-all, ours: predict"] = seconds_of_one_row(flat.predict, X_test)
    rows = [
        {"how": name, "µs a row": f"{1e6 * seconds:.1f}", "x SGDClassifier": f"{seconds / base:.2f}"}
        for name, seconds in told.items()
    ]
    notes = [f"Median of 1,000 single rows of ALOI, 1,000 classes, 128 features, float32. {machine()['machine']}."]
    publish("single_rows", "One row at a time", rows, notes, args.quick)


if __name__ == "__main__":
    main()
