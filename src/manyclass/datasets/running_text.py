"""Wikipedia's dump as words: Matt Mahoney's filter, then numbers of the most frequent words.

The filter's rules are those of his wikifil.pl (public domain), as his page on the test data prints it and as the Recall
Tree's and the LOM tree's experiments use it: only what a reader sees, in lower-case letters a to z, digits spelled out.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from .archives import zip_member
from .packed import Arrays, pack_names

UNKNOWN = "<unk>"

# In this order: each rule sees what the one before has left.
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
    """The words of one record of the dump, cleaned."""
    for pattern, replacement in _RULES:
        record = pattern.sub(replacement, record)
    record = record.lower()
    for digit, word in _DIGITS:
        record = record.replace(digit, word)
    return _NO_LETTERS.sub(b" ", record).split()


def article_words(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The words of the articles of a dump, which comes in records that end in `>`; redirections are passed over."""
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


def records_of(stream: IO[bytes], seen: "hashlib._Hash | None" = None) -> Iterator[bytes]:
    """The stream cut after each `>`; `seen` is fed all bytes."""
    rest = b""
    while block := stream.read(2**20):
        if seen is not None:
            seen.update(block)
        *whole, rest = (rest + block).split(b">")
        for record in whole:
            yield record + b">"
    if rest:
        yield rest


def numbered(articles: Iterable[list[bytes]], n_words: int) -> tuple[np.ndarray, list[str]]:
    """All words as numbers, and the words: number 0 is any word that is not among the `n_words` most frequent.

    Words are counted in the whole text and numbered by frequency; of two that are equally frequent, the one that
    comes first has the smaller number.
    """
    first: dict[bytes, int] = {}  # word → number in the order of appearance
    parts = [np.array([first.setdefault(word, len(first)) for word in words], np.uint32) for words in articles]
    text = np.concatenate(parts) if parts else np.zeros(0, np.uint32)
    counts = np.bincount(text, minlength=len(first))
    best = np.argsort(-counts, kind="stable")[:n_words]
    numbers = np.zeros(len(first), np.uint16 if n_words < 2**16 else np.uint32)
    numbers[best] = np.arange(1, len(best) + 1)
    words = list(first)
    return numbers[text], [UNKNOWN, *(words[place].decode("ascii") for place in best.tolist())]


def wikipedia(folder: Path, name: str, n_words: int, sha1: str) -> Arrays:
    """enwik8.zip or enwik9.zip: the first 90 % of the words train, the next 5 % are for validation, the last for test.

    The unpacked dump must have the SHA-1 that its home publishes.
    """
    seen = hashlib.sha1(usedforsecurity=False)
    with zip_member(folder / f"{name}.zip", name) as stream:
        text, vocabulary = numbered(article_words(records_of(stream, seen)), n_words)
    if seen.hexdigest() != sha1:
        raise ValueError(f"{name}.zip holds another text: SHA-1 {seen.hexdigest()}, published {sha1}")
    first, second = int(len(text) * 0.9), int(len(text) * 0.95)
    parts = {"train": text[:first], "valid": text[first:second], "test": text[second:]}
    return parts | {"vocab": pack_names(vocabulary)}
