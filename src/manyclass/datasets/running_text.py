"""The Wikipedia dump as word numbers: the filter of Matt Mahoney, then the numbers of the most frequent words.

The rules of the filter are those of wikifil.pl (public domain), which the experiments of the Recall Tree and LOM tree
papers use: only text that a reader sees, in lower-case letters a to z, with digits spelled out.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from .packed import Arrays, pack_names

UNKNOWN = "<unk>"

# The order matters: each rule is applied to the result of the rules before it.
_RULES = [
    (re.compile(pattern, flags), replacement)
    for pattern, replacement, flags in (
        (rb"\n", b" ", 0),
        (rb"<.*>", b"", 0),  # tags of the dump itself
        (rb"&amp;", b"&", 0),
        (rb"&lt;", b"<", 0),
        (rb"&gt;", b">", 0),
        (rb"<ref[^<]*</ref>", b"", 0),
        (rb"<[^>]*>", b"", 0),  # tags of the article
        (rb"\[http:[^] ]*", b"[", 0),  # addresses; the text shown for them stays
        (rb"\|thumb", b"", re.IGNORECASE),
        (rb"\|left", b"", re.IGNORECASE),
        (rb"\|right", b"", re.IGNORECASE),
        (rb"\|\d+px", b"", re.IGNORECASE),
        (rb"\[\[image:[^\[\]]*\|", b"", re.IGNORECASE),  # pictures; captions stay
        (rb"\[\[category:([^|\]]*)[^]]*\]\]", rb"[[\1]]", re.IGNORECASE),
        (rb"\[\[[a-z\-]*:[^\]]*\]\]", b"", 0),  # links to other languages
        (rb"\[\[[^|\]]*\|", b"[[", 0),  # targets of links; their text stays
        (rb"\{\{[^}]*\}\}", b"", 0),
        (rb"\{[^}]*\}", b"", 0),
        (rb"\[", b"", 0),
        (rb"\]", b"", 0),
        (rb"&[^;]*;", b" ", 0),
    )
]
_DIGITS = [
    (str(digit).encode(), b" %s " % word)
    for digit, word in enumerate(b"zero one two three four five six seven eight nine".split())
]
_NO_LETTERS = re.compile(rb"[^a-z]+")
_REDIRECT = re.compile(rb"#redirect", re.IGNORECASE)


def visible_words(record: bytes) -> list[bytes]:
    """The words of one record of the dump that a reader sees."""
    for pattern, replacement in _RULES:
        record = pattern.sub(replacement, record)
    record = record.lower()
    for digit, word in _DIGITS:
        record = record.replace(digit, word)
    return _NO_LETTERS.sub(b" ", record).split()


def article_words(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The words of the articles of a dump, whose records end in `>`; redirections are skipped."""
    inside = False
    for record in records:
        if b"<text " in record:
            inside = True
        if _REDIRECT.search(record):
            inside = False
        if inside:
            if b"</text>" in record:
                inside = False
            if words := visible_words(record):
                yield words


def split_records(stream: IO[bytes]) -> Iterator[bytes]:
    """Cut the stream after each `>`."""
    rest = b""
    while block := stream.read(2**20):
        *whole, rest = (rest + block).split(b">")
        yield from (record + b">" for record in whole)
    if rest:
        yield rest


def number_words(articles: Iterable[list[bytes]], n_words: int) -> tuple[np.ndarray, list[str]]:
    """All words as numbers, and the vocabulary: number 0 is any word that is not among the `n_words` most frequent.

    Words are counted in the whole text and numbered by frequency; of two equally frequent words, the one that occurs
    first has the smaller number.
    """
    first: dict[bytes, int] = {}  # word → number in order of appearance
    parts = [np.array([first.setdefault(word, len(first)) for word in words], np.uint32) for words in articles]
    text = np.concatenate(parts) if parts else np.zeros(0, np.uint32)
    counts = np.bincount(text, minlength=len(first))
    best = np.argsort(-counts, kind="stable")[:n_words]
    numbers = np.zeros(len(first), np.uint16 if n_words < 2**16 else np.uint32)
    numbers[best] = np.arange(1, len(best) + 1)
    words = list(first)
    return numbers[text], [UNKNOWN, *(words[place].decode("ascii") for place in best.tolist())]


def wikipedia(folder: Path, name: str, n_words: int) -> Arrays:
    """The unpacked enwik8 or enwik9: 90 % of the words for training, the next 5 % for validation, the last for test."""
    with open(folder / name, "rb") as stream:
        text, vocabulary = number_words(article_words(split_records(stream)), n_words)
    first, second = int(len(text) * 0.9), int(len(text) * 0.95)
    parts = {"train": text[:first], "valid": text[first:second], "test": text[second:]}
    return parts | {"vocab": pack_names(vocabulary)}
