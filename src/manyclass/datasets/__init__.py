"""Data sets: one that ships with the package, larger ones from a folder or their public homes, made-up ones, text."""

from typing import TYPE_CHECKING

from manyclass.datasets.errors import DataNotFound, DownloadError
from manyclass.datasets.fetching import fetch
from manyclass.datasets.folders import cache_folder
from manyclass.datasets.local import available, load, names
from manyclass.datasets.public import PUBLIC_SETS, PublicFile, PublicSet
from manyclass.datasets.text import gloss_vectorizer, tfidf_transformer
from manyclass.datasets.wordnet import Dataset, load_wordnet

if TYPE_CHECKING:
    from manyclass.datasets.hierarchy import Hierarchy

__all__ = [
    "PUBLIC_SETS",
    "DataNotFound",
    "Dataset",
    "DownloadError",
    "Hierarchy",
    "PublicFile",
    "PublicSet",
    "available",
    "cache_folder",
    "fetch",
    "gloss_vectorizer",
    "load",
    "load_wordnet",
    "names",
    "tfidf_transformer",
]


def __getattr__(name: str):
    """`Hierarchy` brings the compiler: it is imported when asked for."""
    if name == "Hierarchy":
        from manyclass.datasets.hierarchy import Hierarchy

        return Hierarchy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
