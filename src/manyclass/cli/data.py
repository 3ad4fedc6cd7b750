"""`manyclass data`: list and download public data sets."""

import json

from ..datasets import PUBLIC_SETS, PublicSet, available, cache_folder, fetch
from .messages import CommandError, note


def run(names: list[str] | None, again: bool, keep: bool, insecure: bool, as_json: bool) -> None:
    """List all data sets, or download those that are named."""
    if not names:
        if as_json:
            print(json.dumps([_facts(entry) for entry in PUBLIC_SETS.values()]))
        else:
            print(*map(_description, PUBLIC_SETS.values()), sep="\n")
            print(f"Download with: manyclass data NAME ... (to {cache_folder()})")
        return
    unknown = [name for name in names if name not in PUBLIC_SETS]
    if unknown:
        raise CommandError(f"unknown data set {', '.join(unknown)}; known sets: {', '.join(PUBLIC_SETS)}")
    for name in names:
        note(_description(PUBLIC_SETS[name]))
        path = fetch(name, again=again, keep=keep, insecure=insecure)
        size = path.stat().st_size
        facts = {"name": name, "path": str(path), "bytes": size}
        print(json.dumps(facts) if as_json else f"{name}: {path} ({size / 1e6:,.1f} MB)")


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
    }


def _description(entry: PublicSet) -> str:
    size = f"{entry.size / 1e6:,.0f} MB to download" if entry.size else "unknown size"
    state = "available" if available(entry.name) else "not downloaded"
    return (
        f"{entry.name} [{state}]: {entry.title}\n  from {entry.home}, {size}\n  licence: {entry.licence}\n"
        f"  split: {entry.split}"
    )
