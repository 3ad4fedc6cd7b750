"""Parquet files, batch by batch. They have rows and no lines: errors name the row and the column's name."""

import os
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .columns import CellFault, RowEncoder, check_columns, resolve_table
from .compressed import BrokenStream, ByteStream, plain_name
from .errors import DataError
from .lines import LOOK_AHEAD_LINES
from .pieces import Piece
from .reading import Reading

_BATCH = 4096


def _open(path: str) -> tuple[BinaryIO, int, bool]:
    """The file, its size, and whether it is a copy: Parquet is read from its end, which a packed stream cannot be."""
    if path != "-" and plain_name(path) == path:
        file = open(path, "rb")
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            return file, status.st_size, False
        file.close()
    stream = ByteStream(path)
    copy = tempfile.TemporaryFile()
    try:
        while data := stream.read(2**20):
            copy.write(data)
    except BrokenStream as broken:
        copy.close()
        raise DataError(path, str(broken), 1, None, place="row") from None
    finally:
        stream.close()
    size = copy.tell()
    copy.seek(0)
    return copy, size, True


class ParquetTable:
    """A Parquet file that is read in passes."""

    def __init__(self, path: str | Path) -> None:
        self._path = os.fspath(path)
        self._file, self.total, self._is_copy = _open(self._path)
        self.consumed = 0
        if self._is_copy:
            weakref.finalize(self, self._file.close)

    def _again(self) -> BinaryIO:
        """The file from its start; opened anew, so that a file that is gone or changed is noticed."""
        if self._is_copy:
            self._file.seek(0)
        else:
            self._file.close()
            self._file, self.total, _ = _open(self._path)
        return self._file

    def close(self) -> None:
        """Close the file, unless it is a copy, which the next pass needs."""
        if not self._is_copy:
            self._file.close()

    def _batches(self, reading: Reading | None, labelled: bool) -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
        """Names of the columns, and rows; first no rows."""
        import pyarrow
        import pyarrow.parquet

        n_read = 0
        try:
            table = pyarrow.parquet.ParquetFile(self._again())
            names = list(table.schema_arrow.names)
            yield names, []
            used = None
            if reading is not None:
                label = [reading.label] if labelled and reading.label is not None else []
                used = [*label, *reading.text, *reading.numeric, *reading.categorical]
            for batch in table.iter_batches(batch_size=_BATCH, columns=used):
                n_read += batch.num_rows
                self.consumed = self.total * n_read // max(table.metadata.num_rows, 1)
                yield names, batch.to_pylist()
        except (pyarrow.ArrowException, EOFError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise self._error(n_read + 1, f"broken Parquet ({reason}); make or fetch the file again") from None
        except OSError as error:
            if error.errno is not None:
                raise
            reason = " ".join(str(error).split())[:200]  # pyarrow's own, which has no number
            raise self._error(n_read + 1, f"broken Parquet ({reason}); make or fetch the file again") from None

    def _error(self, row: int, what: str) -> DataError:
        return DataError(self._path, what, row, None, place="row")

    def resolve(self, reading: Reading, labelled: bool) -> Reading:
        """Find out the columns to use from the first rows."""
        names: list[str] = []
        rows: list[dict[str, Any]] = []
        for names, batch in self._batches(None, labelled):  # noqa: B007
            rows += batch
            if len(rows) >= LOOK_AHEAD_LINES:
                break
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise self._error(1, f"two columns are called {sorted(repeated)[0]!r}; rename one")
        return resolve_table(self._path, reading, names, rows, labelled)

    def pieces(self, reading: Reading, labelled: bool, skip: bool) -> Iterator[Piece]:
        """One pass over the rows."""
        encoder = RowEncoder(reading, labelled)
        n_read = 0
        for names, rows in self._batches(reading, labelled):
            if not rows:
                check_columns(self._path, reading, names, labelled)
            bad: list[int] = []
            error: DataError | None = None
            for number, row in enumerate(rows):
                try:
                    encoder.add(row)
                except CellFault as fault:
                    bad.append(encoder.n_rows)
                    if not skip:
                        error = self._error(n_read + number + 1, fault.what)
                        break
            yield encoder.piece(bad, error)
            n_read += len(rows)
