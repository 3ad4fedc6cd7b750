"""Data files in many formats, read as chunks of rows."""

from .chunks import Chunk
from .errors import DataError
from .reading import COLUMN_KINDS, DELIMITERS, FORMATS, TABLES, Reading
from .source import Source, known_format

__all__ = ["COLUMN_KINDS", "DELIMITERS", "FORMATS", "TABLES", "Chunk", "DataError", "Reading", "Source", "known_format"]
