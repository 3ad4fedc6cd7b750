"""Data sets: one that ships with the package, public ones that can be fetched, and helpers for text."""

from .fetching import DownloadError, fetch
from .local import DataNotFound, available, cache_folder, load, names
from .public import PUBLIC_SETS, PublicFile, PublicSet
from .text import gloss_vectorizer, tfidf_transformer
from .wordnet import Dataset, LabelData, load_wordnet, load_wordnet_labels

__all__ = [
    "PUBLIC_SETS",
    "DataNotFound",
    "Dataset",
    "DownloadError",
    "LabelData",
    "PublicFile",
    "PublicSet",
    "available",
    "cache_folder",
    "fetch",
    "gloss_vectorizer",
    "load",
    "load_wordnet",
    "load_wordnet_labels",
    "names",
    "tfidf_transformer",
]
