"""From files of packages to tables of labels, texts and numbers. These functions do not use the network."""

import csv
import gettext
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Files = Iterable[tuple[str, bytes]]  # names and contents


@dataclass(frozen=True)
class Table:
    """Rows with one label each, and any of: a text, a category, numbers."""

    labels: Sequence[str]
    texts: Sequence[str] = ()
    categories: Sequence[str] = ()
    numbers: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "Table":
        """Some of the rows."""
        labels, texts, categories = (
            [column[row] for row in rows] if len(column) else ()
            for column in (self.labels, self.texts, self.categories)
        )
        return Table(labels, texts, categories, None if self.numbers is None else self.numbers[rows])


def one_line(text: str) -> str:
    """A text without line breaks and repeated spaces."""
    return " ".join(text.split())


def messages(catalogs: Files) -> Table:
    """Translated messages of gettext catalogs, .../LANGUAGE/LC_MESSAGES/NAME.mo; the label is the language."""
    labels, texts = [], []
    for name, data in catalogs:
        catalog = gettext.GNUTranslations(io.BytesIO(data))
        translated = (text for key, text in catalog._catalog.items() if key and isinstance(text, str))
        for text in filter(None, map(one_line, translated)):
            labels.append(name.split("/")[-3])
            texts.append(text)
    return Table(labels, texts)


def licences(rules: Files) -> Table:
    """Licence notices with one licence each; the label is its key."""
    labels, texts = [], []
    for _, data in rules:
        _, head, text = re.split(r"^---\s*$", data.decode("utf-8"), maxsplit=2, flags=re.MULTILINE)
        key = re.search(r"^license_expression: (\S+)\s*$", head, re.MULTILINE)
        if key and "is_false_positive" not in head and one_line(text):
            labels.append(key[1])
            texts.append(one_line(text))
    return Table(labels, texts)


def sources(index: Iterable[dict[str, str]], least: int = 3, most: int = 6) -> Table:
    """Short descriptions of binary packages; the label is their source package, one that builds 3 to 6 of them."""
    rows = {(_source(fields), fields["Description"]) for fields in index}
    counts = Counter(label for label, _ in rows)
    kept = sorted(row for row in rows if least <= counts[row[0]] <= most)
    return Table([label for label, _ in kept], [text for _, text in kept])


def maintainers(index: Iterable[dict[str, str]]) -> Table:
    """Name, description, section and sizes of the first binary package of each source; the label is the maintainer.

    The numbers are the installed size in kB, the size of the file in bytes and how many packages it depends on.
    """
    first: dict[str, dict[str, str]] = {}
    for fields in index:
        first.setdefault(_source(fields), fields)
    rows = list(first.values())
    needs = [len(row["Depends"].split(",")) if "Depends" in row else 0 for row in rows]
    sizes = [(float(row.get("Installed-Size", 0)), float(row["Size"]), n) for row, n in zip(rows, needs, strict=True)]
    texts = [one_line(re.sub(r"[^a-z]+", " ", row["Package"]) + " " + row["Description"]) for row in rows]
    return Table([row["Maintainer"] for row in rows], texts, [row["Section"] for row in rows], np.array(sizes))


def _source(fields: dict[str, str]) -> str:
    return fields.get("Source", fields["Package"]).split()[0]


def manual_pages(pages: Files, least_words: int = 8) -> Table:
    """Paragraphs of manual pages; the label is the page."""
    labels, texts = [], []
    for name, data in pages:
        source = gzip.decompress(data).decode("utf-8", "replace")
        if source.startswith(".so "):  # another name of a page
            continue
        for paragraph in paragraphs(source):
            if len(paragraph.split()) >= least_words:
                labels.append(name.rpartition("/")[2].removesuffix(".gz"))
                texts.append(paragraph)
    return Table(labels, texts)


def paragraphs(source: str) -> list[str]:
    """The paragraphs of a manual page as plain words, without headings, comments and the macros of troff."""
    found: list[list[str]] = [[]]
    for line in source.splitlines():
        macro = re.match(r"[.']\s*(\S*)\s*(.*)", line)
        if macro and macro[1] in ("B", "I", "BI", "BR", "IB", "IR", "RB", "RI"):
            found[-1].append(macro[2])
        elif macro and macro[1] in ("PP", "P", "LP", "TP", "IP", "SH", "SS", "HP"):
            found.append([])
        elif not macro:
            found[-1].append(line)
    texts = (re.sub(r'\\f.|\\[&,/^|]|"', "", " ".join(lines)).replace("\\-", "-") for lines in found)
    return [text for text in map(one_line, texts) if text]


def devices(data: bytes) -> Table:
    """Names of devices in the list of PCI identifiers; the label is the vendor."""
    labels, texts, vendor = [], [], ""
    for line in data.decode("utf-8").splitlines():
        if line.startswith("C "):  # classes of devices follow
            break
        if re.match(r"[0-9a-f]{4}  ", line):
            vendor = line[6:]
        elif re.match(r"\t[0-9a-f]{4}  ", line):
            labels.append(vendor)
            texts.append(one_line(line[7:]))
    return Table(labels, texts)


def code(examples: Files, n_lines: int = 8) -> Table:
    """Pieces of 8 lines of example files, .../LANGUAGE/FILE; the label is the language."""
    labels, texts = [], []
    for name, data in examples:
        if name.endswith((".output", ".py.orig", "conftest.py")):
            continue
        lines = [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
        for start in range(0, len(lines), n_lines):
            labels.append(name.split("/")[-2])
            texts.append(one_line(" ".join(lines[start : start + n_lines])))
    return Table(labels, texts)


def cities(data: bytes) -> Table:
    """Names, latitude, longitude and population of cities; the label is the time zone."""
    rows = sorted(json.loads(data).values(), key=lambda row: row["geonameid"])
    numbers = [[row["latitude"], row["longitude"], row["population"]] for row in rows]
    return Table([row["timezone"] for row in rows], [one_line(row["name"]) for row in rows], (), np.array(numbers))


def letters(data: bytes) -> Table:
    """Sixteen measures of printed letters; the label is the letter."""
    lines = (line for line in data.decode("ascii").splitlines() if line and not line.startswith("@"))
    rows = list(csv.reader(lines, skipinitialspace=True))
    return Table([row[-1] for row in rows], (), (), np.array([row[:-1] for row in rows], float))


def kanji(n_characters: int, seed: int = 0) -> list[str]:
    """A sample of the 2,965 common characters of JIS X 0208 (level 1)."""
    codes = (bytes((row, column)) for row in range(0xB0, 0xD0) for column in range(0xA1, 0xFF))
    characters = [text for text in (code.decode("euc_jp", "ignore") for code in codes) if text]
    return sorted(np.random.default_rng(seed).permutation(characters)[:n_characters].tolist())


def glyphs(fonts: Files, characters: Sequence[str], size: int = 24) -> Table:
    """Characters drawn in fonts, as grey pixels; the label is the character. A font may lack some of them."""
    from PIL import Image, ImageDraw, ImageFont

    labels, pixels = [], []
    for _, data in fonts:
        font = ImageFont.truetype(io.BytesIO(data), size - 2)

        def drawn(character: str, font: Any = font) -> np.ndarray:
            image = Image.new("L", (size, size), 0)
            ImageDraw.Draw(image).text((size / 2, size / 2), character, fill=255, font=font, anchor="mm")
            return np.asarray(image).ravel()

        absent = drawn("\uffff")
        for character in characters:
            image = drawn(character)
            if image.any() and not np.array_equal(image, absent):
                labels.append(character)
                pixels.append(image)
    return Table(labels, (), (), np.array(pixels, float))
