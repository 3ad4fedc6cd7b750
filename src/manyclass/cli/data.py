"""`manyclass data`: which public data sets there are, and fetching them."""

import json
import sys

from rich.console import Console

from ..datasets import PUBLIC_SETS, PublicSet, available, cache_folder, fetch
from .errors import CommandError


def run(names: list[str], again: bool, keep: bool, as_json: bool) -> None:
    """List all sets, or fetch those that are named."""
    unknown = [name for name in names if name not in PUBLIC_SETS]
    if unknown:
        raise CommandError(f"no public data set {', '.join(unknown)}; known: {', '.join(PUBLIC_SETS)}")
    chosen = [PUBLIC_SETS[name] for name in names]
    out = Console(markup=False, highlight=False, soft_wrap=True)
    if not names:
        if as_json:
            out.print(json.dumps([_facts(entry) for entry in PUBLIC_SETS.values()]))
            return
        for entry in PUBLIC_SETS.values():
            out.print(_described(entry))
        out.print(f"Fetch by: manyclass data NAME ... (into {cache_folder()})")
        return
    for entry in chosen:
        if not as_json:
            print(_described(entry), file=sys.stderr)
        path = fetch(entry.name, again=again, keep=keep)
        size = path.stat().st_size
        if as_json:
            out.print(json.dumps({"name": entry.name, "path": str(path), "bytes": size}))
        else:
            out.print(f"{entry.name}: {path} ({size / 1e6:,.1f} MB)")


def _facts(entry: PublicSet) -> dict:
    return {
        "name": entry.name,
        "title": entry.title,
        "home": entry.home,
        "urls": [url for file in entry.files for url in file.urls],
        "bytes": entry.size,
        "licence": entry.licence,
        "split": entry.split,
        "available": available(entry.name),
        "by_hand": entry.by_hand,
    }


def _described(entry: PublicSet) -> str:
    """A set in a few lines."""
    size = f"{entry.size / 1e6:,.0f} MB to download" if entry.size else "size not known beforehand"
    state = "here" if available(entry.name) else "by hand" if entry.by_hand else "not fetched"
    return (
        f"{entry.name} [{state}]: {entry.title}\n  from {entry.home}, {size}\n  licence: {entry.licence}\n"
        f"  split: {entry.split}"
    )
