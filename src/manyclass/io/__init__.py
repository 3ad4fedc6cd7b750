"""Files and arrays: data in many formats in, models in and out."""

from .errors import DataError
from .pieces import Chunk
from .reading import FORMATS, Reading
from .source import Source, known_format

__all__ = ["FORMATS", "Chunk", "DataError", "Reading", "Source", "known_format"]
