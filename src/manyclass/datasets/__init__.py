"""Data sets: one that ships with the package, public ones that can be fetched, and helpers for text."""

from .fetching import DownloadError, fetch
from .local import DataNotFound, available, cache_folder, load, names
from .public import PUBLIC_SETS, PublicFile, PublicSet
from .text import gloss_vectorizer, tfidf_transformer
from .wordnet import Dataset, load_wordnet

__all__ = [
    "PUBLIC_SETS",
    "DataNotFound",
    "Dataset",
    "DownloadError",
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
