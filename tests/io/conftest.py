"""Files for the tests of readers."""

from pathlib import Path

import numpy as np
import pytest

from manyclass.io import Chunk, DataError, Reading, Source


@pytest.fixture
def make(tmp_path):
    """Write a file and return its path."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def read():
    """Read a whole file as one chunk."""

    def whole(path, reading: Reading = Reading(), **options) -> Chunk:
        (chunk,) = Source(path, reading, **options).chunks(10**9)
        assert chunk.X.has_canonical_format and chunk.X.dtype == np.float32 and chunk.X.indices.dtype == np.int32
        return chunk

    return whole


@pytest.fixture
def refused():
    """Read a file and return its DataError."""

    def failing(path, reading: Reading = Reading(), **options) -> DataError:
        with pytest.raises(DataError) as caught:
            for _ in Source(path, reading, **options).chunks():
                pass
        assert str(path) in str(caught.value)
        return caught.value

    return failing
