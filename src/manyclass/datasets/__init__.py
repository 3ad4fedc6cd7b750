"""Data sets: one that ships with the package, larger ones from a folder or their public homes, and text to inputs."""

from manyclass.datasets.errors import DataNotFound, DownloadError
from manyclass.datasets.fetching import fetch
from manyclass.datasets.folders import cache_folder
from manyclass.datasets.local import available, load, names
from manyclass.datasets.public import PUBLIC_SETS, PublicFile, PublicSet
from manyclass.datasets.text import gloss_vectorizer, tfidf_transformer
from manyclass.datasets.wordnet import Dataset, load_wordnet

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
