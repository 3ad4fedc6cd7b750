"""The result of an evaluation as a picture, and as one HTML file that needs no network."""

import io
from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from ..core.base import algorithm_of
from ..metrics import RiskCoverage, risk_coverage_plot
from ..metrics.calibration import figure_class
from .evaluate import Section, frequency_range, percent, sections, table_label
from .evaluation import Evaluation
from .files import check_writable, replaced
from .messages import CommandError, visible

N_EXAMPLES = 20  # confident errors
_LONGEST = 300  # characters of a cell
_LONG = 40  # characters of a cell that needs a wide column
_BLUE, _GREY = "#2f6db3", "#8a8f98"


# -- pictures ------------------------------------------------------------------------------------------------------


def check_outputs(
    inputs: Sequence[str], picture: str | None, report: str | None = None, risk_coverage: str | None = None
) -> None:
    """Raise an error before any work if a picture or the report cannot be written, or would replace an input."""
    for option, path in (("--picture", picture), ("--risk-coverage", risk_coverage)):
        if path is not None and not path.lower().endswith((".png", ".svg")):
            raise CommandError(f"{option} {path}: the name must end in .png or .svg.")
    for path in (picture, report, risk_coverage):
        if path is not None:
            check_writable(path, *inputs)
            figure_class()


def save_figure(figure: Any, path: str) -> None:
    """Write a .png or .svg file; the same figure always gives the same bytes."""
    out = io.BytesIO()
    if path.lower().endswith(".svg"):
        out.write(_svg(figure).encode())
    else:
        figure.savefig(out, format="png", dpi=150)
    with replaced(path) as file:
        file.write(out.getvalue())


def _svg(figure: Any) -> str:
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.hashsalt": "manyclass"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def draw(models: Sequence[dict[str, Any]], path: str) -> None:
    """All diagrams side by side, one line for each model."""
    lines = [list(_panels(metrics)) for metrics in models]
    size = (4.6 * len(lines[0]), 3.8 * len(lines))
    figure = figure_class()(figsize=size, layout="constrained")
    for metrics, panels, line in zip(models, lines, figure.subfigures(len(lines), 1, squeeze=False)[:, 0], strict=True):
        line.suptitle(metrics.get("model", ""), parse_math=False)
        for axes, panel in zip(line.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            panel(axes, metrics)
    save_figure(figure, path)


def draw_risk_coverage(curve: RiskCoverage, path: str) -> None:
    """The share of wrong predictions among the most certain ones."""
    figure = figure_class()(figsize=(5, 4), layout="constrained")
    risk_coverage_plot(curve, figure.subplots())
    save_figure(figure, path)


def _panels(metrics: dict[str, Any]) -> Iterator[Callable[[Any, dict[str, Any]], None]]:
    yield _draw_reliability
    yield _draw_frequency
    if "micro_f1_by_threshold" in metrics:
        yield _draw_thresholds


def _plain(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=11, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_reliability(axes: Any, metrics: dict[str, Any]) -> None:
    """Accuracy against probability; the area of a point shows the number of rows."""
    shown = metrics["reliability"]
    points = [point for point in zip(*shown.values(), strict=True) if point[0]]
    rows, probability, accuracy = zip(*points, strict=True)
    axes.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1, label="perfect calibration")
    axes.plot(probability, accuracy, color=_BLUE, linewidth=1.5)
    axes.scatter(probability, accuracy, s=[15 + 250 * n / max(rows) for n in rows], color=_BLUE, alpha=0.75)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.05))
    axes.legend(frameon=False, fontsize=9)
    _plain(axes, "Reliability of the best prediction", "probability", "share of correct predictions")


def _draw_frequency(axes: Any, metrics: dict[str, Any]) -> None:
    """Recall of classes by their number of rows."""
    groups = metrics["by_frequency"]
    bars = axes.barh([frequency_range(group) for group in groups], [group["recall"] for group in groups], color=_BLUE)
    axes.bar_label(bars, [f"{100 * group['recall']:.0f} %" for group in groups], padding=3, fontsize=9)
    axes.set_xlim(0, 1.12)
    share = "recall" if "micro_f1" in metrics else "accuracy"
    _plain(axes, f"{share.capitalize()} by class frequency", share, f"{metrics['frequency_counted_in']} of the class")


def _draw_thresholds(axes: Any, metrics: dict[str, Any]) -> None:
    """Micro-F1 against the threshold."""
    thresholds, f1 = zip(*metrics["micro_f1_by_threshold"], strict=True)
    axes.plot(thresholds, f1, color=_BLUE, linewidth=1.5)
    for name, style in (("threshold", ":"), ("best_threshold", "--")):
        label = "of the model" if name == "threshold" else "best on these rows"
        axes.axvline(metrics[name], color=_GREY, linestyle=style, linewidth=1, label=f"{label}: {metrics[name]:g}")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, fontsize=9)
    _plain(axes, "Threshold of the probability", "threshold", "micro-F1")


# -- HTML ----------------------------------------------------------------------------------------------------------


def write_report(evaluation: Evaluation, metrics: dict[str, Any], path: str, model: str) -> None:
    """Write the report of a model."""
    trained = evaluation.trained
    first, *others = sections(metrics)
    trained_on = f", trained on {trained.n_counted:,} rows" if trained.n_counted else ""
    facts = f"{algorithm_of(trained.estimator)}, {evaluation.n_classes:,} classes{trained_on}"
    text = f"{facts}; evaluated on {evaluation.source.path}"
    tables = [*sorted(others, key=_is_wide), _examples(evaluation)]
    grid = _grid([*_diagrams([metrics]), *map(_table, tables)])
    _write_page(path, f"Evaluation of {model}", text, [*_boxes(metrics["warnings"]), _cards(first), grid])


def write_comparison(results: dict[str, Any], path: str, data: str, tables: Sequence[Section]) -> None:
    """Write the report of two models."""
    sides = [results["first"], results["second"]]
    title = f"{sides[0]['model']} and {sides[1]['model']}"
    text = f"evaluated on {results['n_rows']:,} rows of {data}; exact McNemar test p = {results['p_value']:.3g}"
    warnings = [warning for side in sides for warning in side["warnings"]]
    names = {name: name.replace("_right", "").replace("_", " ") for name in results if name.endswith("_right")}
    cards = Section("", (), [(f"{text} correct", f"{results[name]:,}") for name, text in names.items()])
    grid = _grid([*map(_table, tables), *_diagrams(sides)], "grid two")
    _write_page(path, title, text, [*_boxes(warnings), _cards(cards), grid])


def _write_page(path: str, title: str, text: str, parts: Sequence[str]) -> None:
    body = "\n".join([f"<h1>{_text(title)}</h1>", f'<p class="soft">{_text(text)}</p>', *parts])
    page = (files(__package__) / "report.html").read_text(encoding="utf-8")
    with replaced(path) as file:
        file.write(Template(page).substitute(title=_text(title), body=body).encode())


def _boxes(warnings: Sequence[str]) -> list[str]:
    return [f'<div class="warning">{_text(warning)}</div>' for warning in warnings]


def _cards(section: Section) -> str:
    cards = [f'<div class="card">{_text(name)}<b>{_text(value)}</b></div>' for name, value in section.rows]
    return f'<div class="cards">{"".join(cards)}</div>'


def _grid(parts: Sequence[str], kind: str = "grid") -> str:
    return f'<div class="{kind}">\n' + "\n".join(parts) + "\n</div>"


def _diagrams(models: Sequence[dict[str, Any]]) -> list[str]:
    """The diagrams; the same ones of two models stand side by side."""
    parts = []
    for panel in _panels(models[0]):
        for metrics in models:
            name = f"<h2>{_text(metrics['model'])}</h2>" if "model" in metrics else ""
            figure = figure_class()(figsize=(4.6, 3.8), layout="constrained")
            panel(figure.subplots(), metrics)
            picture = _svg(figure)
            parts.append(f"<section>{name}{picture[picture.index('<svg') :]}</section>")
    return parts


def _text(value: Any) -> str:
    """Any text inside HTML: nothing in it is markup, and no character changes the direction or is invisible."""
    return escape(visible(str(value)))


def _is_wide(section: Section) -> bool:
    return len(section.header) > 4


def _table(section: Section) -> str:
    """A table; without a header, names and values."""
    if not section.rows:
        return ""
    kinds = ["" if n in section.texts else ' class="number"' for n in range(len(section.rows[0]))]
    head = "".join(f"<th{kind}>{_text(name)}</th>" for kind, name in zip(kinds, section.header, strict=False))
    lines = []
    for row in section.rows:
        cells = [(' class="long"' if len(cell) > _LONG else kind, cell) for kind, cell in zip(kinds, row, strict=True)]
        lines.append("<tr>" + "".join(f"<td{kind}>{_text(cell)}</td>" for kind, cell in cells) + "</tr>")
    wide = ' class="wide"' if _is_wide(section) else ""
    body = f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{''.join(lines)}</tbody></table>"
    title = f"<h2>{_text(section.title)}</h2>" if section.title else ""
    return f"<section{wide}>{title}<div>{body}</div></section>"


def _examples(evaluation: Evaluation) -> Section:
    """The errors with the highest probabilities."""
    columns = evaluation.source.keep
    header = ("row", "true", "predicted", "probability", *columns)
    rows = []
    for example in evaluation.examples:
        true = ", ".join(table_label(evaluation.labels[number]) for number in example.true)
        predicted = table_label(evaluation.labels[example.predicted])
        cells = ["" if cell is None else str(cell) for cell in example.cells]
        short = [cell if len(cell) <= _LONGEST else f"{cell[:_LONGEST]}…" for cell in cells]
        rows.append((f"{example.row:,}", true, predicted, percent(example.probability), *short))
    return Section("Confident errors", header, rows, (1, 2, *range(4, len(header))))
