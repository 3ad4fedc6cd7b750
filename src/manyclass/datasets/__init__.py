"""Data sets: one that ships with the package, larger public ones, and text."""

from .errors import DataNotFound, DownloadError
from .fetching import fetch
from .folders import cache_folder
from .local import available, load, names
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
