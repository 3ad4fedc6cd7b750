"""`manyclass explain`: why a text gets its label."""

import json
import sys
from typing import Any

from ..metrics.calibration import figure_class
from ..trained import Trained, open_model
from .messages import CommandError, note_written, notice_if_slow, printable
from .report import check_outputs, save_figure


def run(model: str, text: str, label: str | None, top_k: int, picture: str | None, as_json: bool) -> None:
    """Print the explanation of one prediction."""
    check_outputs((model,), picture)
    trained = open_model(model)
    if not trained.reading.columns:
        raise CommandError(f"{model}: the model was not trained on a table with text. Use explain(x) in Python.")
    row, clf = _row(text, trained), trained.estimator
    with notice_if_slow():
        found = clf.explain(row, None if label is None else trained.as_labels([label])[0], k=top_k)
        probability = float(clf.predict_proba([row], sparse=True)[0, clf._id_of(found.label)])
    if as_json:
        text = json.dumps({"probability": probability, **found.to_dict()}, ensure_ascii=False)
        print(printable(text, sys.stdout))
    else:
        print(printable(f"{found}\n\nprobability of {found.label}: {probability:.4f}", sys.stdout))
    if picture is not None:
        height = 1.4 + 0.28 * (len(found.contributions) + len(found.terms) + 1)
        figure = figure_class()(figsize=(7.0, height), layout="constrained")
        save_figure(found.plot(figure.subplots()).figure, picture)
        note_written(picture)


def _row(text: str, trained: Trained) -> Any:
    """The text, or the cells of a JSON object."""
    if trained.reading.columns == trained.reading.text and len(trained.reading.text) == 1:
        return text
    expected = f"the model has the columns {', '.join(trained.reading.columns)}: pass a JSON object of their cells"
    try:
        cells = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{expected} ({error}).") from error
    if not isinstance(cells, dict):
        raise CommandError(f"{expected}.")
    return {name: None for name in trained.reading.columns} | cells
