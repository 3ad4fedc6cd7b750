"""Count sentences of more than 30 words in Markdown pages: python scripts/prose.py [--show] FILE..."""

import re
import sys
from pathlib import Path

LONGEST = 30


def sentences(text: str) -> list[str]:
    """The sentences of the prose of a page: without code, tables, headings, comments and links' addresses."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^(?:\||#|    |!\[).*$", "", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    blocks = re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", text, flags=re.M)
    return [part.strip() for block in blocks for part in re.split(r"(?<=[.:?!])\**\s+", " ".join(block.split()))]


def long_sentences(file: Path) -> list[str]:
    """The sentences of a page that have too many words."""
    found = sentences(file.read_text(encoding="utf-8"))
    return [sentence for sentence in found if len(re.findall(r"[A-Za-z][\w'’-]*", sentence)) > LONGEST]


if __name__ == "__main__":
    total = 0
    for name in [name for name in sys.argv[1:] if name != "--show"]:
        found = long_sentences(Path(name))
        total += len(found)
        if found:
            print(f"{name}: {len(found)}")
        if "--show" in sys.argv:
            print("".join(f"    {sentence}\n" for sentence in found), end="")
    print(f"{total} sentences of more than {LONGEST} words")
    sys.exit(bool(total))
