"""`manyclass audit`: rows of a data file whose label is probably wrong, and labels that are confused."""

import json
import sys
from types import SimpleNamespace
from typing import Any

from ..core.label_issues import LabelIssues
from .algorithms import default_algorithm, make_estimator
from .files import check_writable, escape, named_format, open_training_source, replaced_data, table_text
from .messages import CommandError, note, note_written, notice_if_slow, printable
from .rows import read_rows


def run(**options: Any) -> None:
    """Cross-validate the labels of a file and report those that are probably wrong."""
    plan = SimpleNamespace(**options)  # as `audit` in `main.py` declares them
    output, top = plan.output, plan.top
    if output is not None:
        check_writable(output, plan.data)
        if named_format(output) not in ("csv", "tsv"):
            raise CommandError(f"--output {output}: the name must end in .csv or .tsv.")
    source = open_training_source(plan.data, plan.reading)
    if source.reading.labels == "several":
        raise CommandError(f"{plan.data}: rows have several labels; audit requires one label per row.")
    X, y, _ = read_rows(source, None, plan.max_rows)
    if source.n_skipped:
        what = f"skipped {source.n_skipped} bad lines of {plan.data}, which are not counted in row numbers"
        note(f"manyclass: {what}")
    if X.shape[0] == plan.max_rows:
        note(f"manyclass: only the first {plan.max_rows:,} rows are checked (--max-rows)")
    if plan.folds > X.shape[0]:
        raise CommandError(f"{plan.data} has {X.shape[0]} rows: --folds {plan.folds} requires more.")
    algorithm = plan.algorithm or default_algorithm()
    estimator = make_estimator(algorithm, (), plan.seed).set_params(n_jobs=plan.threads)
    with notice_if_slow():
        found = estimator.find_label_issues(X, y, cv=plan.folds)
    if output is not None:
        with replaced_data(output) as file:
            file.write(table_text([list(found.to_dict()), *_cells(found)], str(named_format(output))).encode())
        note_written(output)
    if plan.as_json:
        print(printable(json.dumps(_facts(found, top), ensure_ascii=False), sys.stdout))
    else:
        print(printable(_text(found, top), sys.stdout))


def _cells(found: LabelIssues) -> list[list[Any]]:
    """The reported rows; rows are counted from 1."""
    columns = [column.tolist() for column in found.to_dict().values()]
    return [[row + 1, *rest] for row, *rest in zip(*columns, strict=True)]


def _facts(found: LabelIssues, top: int) -> dict[str, Any]:
    names = list(found.to_dict())
    return {
        "n_rows": len(found.quality),
        "n_issues": len(found.rows),
        "issues": [dict(zip(names, cells, strict=True)) for cells in _cells(found)[:top]],
        "pairs": [pair._asdict() for pair in found.pairs[:top]],
    }


def _text(found: LabelIssues, top: int) -> str:
    lines = [f"{len(found.rows):,} of {len(found.quality):,} rows probably have a wrong label."]
    if len(found.rows):
        lines += ["", "row  label -> probably (probability of the label, of the other)"]
    for row, given, suggested, own, other in _cells(found)[:top]:
        lines.append(f"{row}  {escape(given)} -> {escape(suggested)}  ({own:.3f}, {other:.3f})")
    if found.pairs:
        lines += ["", "labels that are confused: rows, share of the rows of the first"]
    for pair in found.pairs[:top]:
        lines.append(f"{pair.n_rows}  {100 * pair.share:.1f} %  {escape(pair.given)} -> {escape(pair.suggested)}")
    return "\n".join(lines)
