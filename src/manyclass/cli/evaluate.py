"""`manyclass evaluate`: metrics of a model over a data file of any size."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from ..io import Source
from ..trained import Trained, open_model
from .evaluation import KS, WORK, Evaluation
from .files import escape, open_source
from .messages import note_written, printable, warn

_PRECISIONS = (0.9, 0.95, 0.99)  # of the most certain predictions
_N_REPORTED = 20  # classes and pairs in a report
_WIDEST = 40  # characters of a label in a table
_INTEGERS = ("bytes", "n_rows", "n_unknown_rows", "n_unknown_labels", "n_skipped")
_PLAIN = ("depth", "nodes_visited", "routers_scored", "candidates_scored", "work", "seconds", "threshold")
_TITLES = {
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    **{f"top_{k}_accuracy": f"top-{k} accuracy" for k in KS},
    **{f"{name}@{k}": f"{short}@{k}" for name, short in (("precision", "P"), ("psp", "PSP")) for k in KS},
    "n_unknown_rows": "rows with unknown labels",
    "n_unknown_labels": "unknown labels",
    "n_skipped": "skipped lines",
    "n_rows": "rows",
}


class Section(NamedTuple):
    """A table of a result, as text."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Sequence[int] = (0,)  # columns that are aligned to the left; the others are numbers


def run(
    model: str,
    data: str,
    reading: dict,
    picture: str | None,
    report: str | None,
    risk_coverage: str | None,
    threads: int,
    as_json: bool,
) -> None:
    """Evaluate a model and print the metrics."""
    from . import report as reports

    reports.check_outputs((model, data), picture, report, risk_coverage)
    trained = open_model(model, threads)
    source = open_source(data, reading, trained.reading, keep=None if report else ())
    evaluation = Evaluation(trained, source, reports.N_EXAMPLES if report else 0)
    metrics = summary(evaluation)
    warn(metrics["warnings"])
    if picture:
        reports.draw([metrics], picture)
    if report:
        reports.write_report(evaluation, summary(evaluation, _N_REPORTED), report, model)
    text = table(metrics)
    if risk_coverage:
        curve = evaluation.risk_coverage()
        reports.draw_risk_coverage(curve, risk_coverage)
        shares = {str(precision): curve.coverage_at(precision) for precision in _PRECISIONS}
        thresholds = {str(precision): evaluation.threshold_for(precision) for precision in _PRECISIONS}
        metrics["risk_coverage"] = {"mean_risk": curve.area(), "rows_at_precision": shares, "thresholds": thresholds}
        header = ("precision", "rows predicted", "threshold with 95 % confidence")
        rows = [
            (percent(float(precision)), percent(share), "not reached" if limit is None else f"{limit:.4f}")
            for (precision, share), limit in zip(shares.items(), thresholds.values(), strict=True)
        ]
        text += "\n\n" + as_text(Section("Most certain predictions", header, rows))
    note_written(picture, report, risk_coverage)
    print(json.dumps(metrics, default=str) if as_json else text)


def evaluate(trained: Trained, source: Source) -> dict[str, Any]:
    """All metrics of a model, lists of classes, and the time. Warnings are printed."""
    metrics = summary(Evaluation(trained, source))
    warn(metrics["warnings"])
    return metrics


def summary(evaluation: Evaluation, n_listed: int = 10) -> dict[str, Any]:
    """The result of an evaluation as values for JSON."""
    reliability = evaluation.reliability
    return {
        **evaluation.metrics(),
        **evaluation.by_frequency(),
        "unknown_labels": evaluation.unknown_labels(n_listed),
        "worst_classes": evaluation.worst_classes(n_listed),
        "most_confused": evaluation.most_confused(n_listed),
        "reliability": {
            "rows": reliability.counts.astype(int).tolist(),
            "probability": reliability.confidence.tolist(),
            "accuracy": reliability.accuracy.tolist(),
        },
        "warnings": evaluation.warnings(),
    }


# -- tables --------------------------------------------------------------------------------------------------------


def title(name: str) -> str:
    """A metric's name as text."""
    return _TITLES.get(name, name.replace("_", " "))


def formatted(name: str, value: float) -> str:
    """A metric as text."""
    if name in _INTEGERS:
        return f"{value:,}"
    return f"{value:,.4g}" if name in _PLAIN and value < 1 else f"{value:,.2f}" if name in _PLAIN else percent(value)


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.2f} %"


def sections(metrics: dict[str, Any]) -> Iterator[Section]:
    """The tables of a result."""
    several = "micro_f1" in metrics
    yield _overview(metrics, several)
    if several:
        yield from _several_labels(metrics)
    share = "recall" if several else "accuracy"
    groups = [
        (frequency_range(group), f"{group['labels']:,}", f"{group['true']:,}", percent(group["recall"]))
        for group in metrics["by_frequency"]
    ]
    header = (metrics["frequency_counted_in"], "classes", "labels" if several else "rows", share)
    yield Section(f"{share.capitalize()} by class frequency", header, groups)
    if unknown := metrics["unknown_labels"]:
        labels = [(table_label(row["label"]), f"{row['rows']:,}") for row in unknown]
        yield Section("Unknown labels", ("label", "rows"), labels)
    if worst := metrics["worst_classes"]:
        names = ("label", "rows", "precision", "recall", "F1", *(() if several else ("most confused with",)))
        yield Section("Worst classes", names, [_class_row(row) for row in worst], (0, 5))
    if confused := metrics["most_confused"]:
        pairs = [(table_label(pair["true"]), table_label(pair["predicted"]), f"{pair['rows']:,}") for pair in confused]
        yield Section("Most confused", ("true", "predicted", "rows"), pairs, (0, 1))
    costs = [(title(name), f"{metrics[name]:,.2f}") for name in WORK]
    yield Section("Work per row", (), [*costs, ("µs", f"{1e6 * metrics['seconds'] / metrics['n_rows']:,.0f}")])


def _overview(metrics: dict[str, Any], several: bool) -> Section:
    best = ["micro_f1"] if several else ["accuracy", *(f"top_{k}_accuracy" for k in KS[1:])]
    names = [*best, "macro_f1", "candidate_recall", "calibration_error", "n_rows", "n_unknown_rows"]
    names += [name for name in ("n_unknown_labels", "n_skipped") if metrics[name]]
    rows = {name: formatted(name, metrics[name]) for name in names}
    if unknown := metrics["n_unknown_rows"]:
        rows["n_unknown_rows"] = f"{unknown:,} ({percent(unknown / metrics['n_rows'])})"
    return Section("", (), [(title(name), text) for name, text in rows.items()])


def _several_labels(metrics: dict[str, Any]) -> Iterator[Section]:
    kinds = {"precision": "P@k", "ndcg": "nDCG@k", "psp": "PSP@k"}
    known = [name for name in kinds if f"{name}@1" in metrics]
    ranking = [(str(k), *(percent(metrics[f"{name}@{k}"]) for name in known)) for k in KS]
    yield Section("Ranking", ("k", *(kinds[name] for name in known)), ranking)
    thresholds = [
        ("of the model", f"{metrics['threshold']:g}", percent(metrics["micro_f1"])),
        ("best on these rows", f"{metrics['best_threshold']:g}", percent(metrics["best_threshold_micro_f1"])),
    ]
    yield Section("Threshold of the probability", ("", "threshold", "micro-F1"), thresholds)


def frequency_range(group: dict[str, Any]) -> str:
    """The number of rows of the classes of a group."""
    low, high = group["from"], group["below"]
    return f"{low:,} or more" if high is None else f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"


def _class_row(row: dict[str, Any]) -> tuple[str, ...]:
    shares = [percent(row[name]) for name in ("precision", "recall", "f1")]
    other = [table_label(row["most_confused_with"])] if "most_confused_with" in row else []
    return (table_label(row["label"]), f"{row['rows']:,}", *shares, *other)


def table_label(label: Any) -> str:
    """A label in a table: one line, and not too long."""
    text = escape(label)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def table(metrics: dict[str, Any]) -> str:
    """All tables as text."""
    return printable("\n\n".join(map(as_text, sections(metrics))), sys.stdout)


def as_text(section: Section) -> str:
    """A table with aligned columns."""
    lines = [*([section.header] if section.header else []), *section.rows]
    columns = []
    for number, cells in enumerate(zip_longest(*lines, fillvalue="")):
        width = max(map(len, cells))
        columns.append([cell.ljust(width) if number in section.texts else cell.rjust(width) for cell in cells])
    body = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
    return "\n".join([*([section.title] if section.title else []), *body])
