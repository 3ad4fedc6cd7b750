"""Numbers and tables as text, the same on every page."""

from collections.abc import Sequence


def p_text(p: float) -> str:
    """A p-value as the papers print it."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def numeric_columns(rows: Sequence[Sequence[str]]) -> list[bool]:
    """For each column, whether all its texts are numbers or dashes."""
    return [all(text[:1] in "–<-+0123456789" for text in column) for column in zip(*rows, strict=True)]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers are aligned to the right."""
    marks = ["---:" if number else "---" for number in numeric_columns(rows)]
    return "\n".join(f"| {' | '.join(text.replace('|', '/') for text in texts)} |" for texts in (head, marks, *rows))
