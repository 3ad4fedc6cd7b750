"""Data sets: one that ships with the package, larger ones read from a folder, made-up ones, and text to inputs."""

from manyclass.datasets.hierarchy import Hierarchy
from manyclass.datasets.local import DataNotFound, available, load, names
from manyclass.datasets.text import gloss_vectorizer, tfidf_transformer
from manyclass.datasets.wordnet import Dataset, load_wordnet

__all__ = [
    "DataNotFound",
    "Dataset",
    "Hierarchy",
    "available",
    "gloss_vectorizer",
    "load",
    "load_wordnet",
    "names",
    "tfidf_transformer",
]
