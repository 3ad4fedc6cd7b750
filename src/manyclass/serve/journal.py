"""The write-ahead journal: rows to learn are on disk before a request is acknowledged.

One SQLite file per model, in WAL mode with synchronous=FULL: a commit returns after the data are on disk. A thread
writes all waiting requests in one transaction (group commit). Several processes may write and read the same journal.
"""

import hashlib
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

_TABLES = """
CREATE TABLE IF NOT EXISTS rows (seq INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, refused TEXT);
CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, digest BLOB NOT NULL, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS keys_by_seq ON keys (seq);
CREATE TABLE IF NOT EXISTS versions (version INTEGER PRIMARY KEY, source TEXT NOT NULL);
"""
_GROUP = 512  # requests written in one transaction
KEYS_KEPT = 1_000_000  # idempotency keys of the latest rows
_BUSY = 10.0  # seconds to wait for another process that writes


class JournalFull(Exception):
    """The journal could not be written: the disk is full, or fails."""


class KeyReused(Exception):
    """An idempotency key was used before for another request."""


class Row(NamedTuple):
    """A row of the journal."""

    seq: int
    body: bytes
    refused: bool  # it could not be learned, and is skipped


class Stored(NamedTuple):
    """Where the rows of a request are in the journal."""

    seq: int  # of the last row
    duplicate: bool  # whether the idempotency key was known: nothing was added


class _Request(NamedTuple):
    bodies: Sequence[bytes]
    key: str | None
    done: "Future[Stored]"


def not_cancelled() -> "Future[Any]":
    """A future that cannot be cancelled: if a client stops waiting, the thread that sets the result must not fail."""
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()
    return done


class Journal:
    """The journal of a model; the SQLite file is created if it does not exist."""

    def __init__(self, path: Path):
        self.path, self.error = path, ""  # error: why the last commit failed; empty if it did not
        self._writer = self._connect()
        self._writer.executescript(_TABLES)
        self._reader = self._connect()
        self._lock = threading.Lock()  # of the reader
        self.last = self.bounds()[1]  # the last row that is known to be written
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"journal {path.name}", daemon=True)
        self._thread.start()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    # -- writing ---------------------------------------------------------------------------------------------------

    def add(self, bodies: Sequence[bytes], key: str | None = None) -> "Future[Stored]":
        """Write the rows of a request; the future is done when they are on disk.

        With a key, a request that was written before is not written again. JournalFull: nothing was written.
        """
        done: Future[Stored] = not_cancelled()
        self._requests.put(_Request(bodies, key, done))
        return done

    def try_again(self) -> None:
        """After an error, find out whether the journal can be written again."""
        self._requests.put(_Request((), None, Future()))

    def _run(self) -> None:
        while (first := self._requests.get()) is not None:
            group = [first]
            with suppress(Empty):
                while len(group) < _GROUP:
                    request = self._requests.get_nowait()
                    if request is None:
                        self._requests.put(None)
                        break
                    group.append(request)
            self._write(group)

    def _write(self, group: list[_Request]) -> None:
        results: list[Stored | Exception] = []
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            for request in group:
                try:
                    results.append(self._insert(request))
                except KeyReused as error:
                    results.append(error)
            self._writer.execute("COMMIT")
            self.error = ""
            self.last = max([self.last, *(result.seq for result in results if isinstance(result, Stored))])
        except (sqlite3.Error, OSError) as error:
            self.error = str(error)
            results = [JournalFull(str(error))] * len(group)
            self._reopen()
        for request, result in zip(group, results, strict=True):
            if isinstance(result, Exception):
                request.done.set_exception(result)
            else:
                request.done.set_result(result)

    def _insert(self, request: _Request) -> Stored:
        if not request.bodies:
            self._writer.execute("UPDATE versions SET source = source")
            return Stored(self.last, True)
        digest = hashlib.sha256(b"\n".join(request.bodies)).digest()
        if request.key is not None:
            known = self._writer.execute("SELECT digest, seq FROM keys WHERE key = ?", (request.key,)).fetchone()
            if known is not None and known[0] != digest:
                raise KeyReused(f"the id {request.key!r} was used before for another request")
            if known is not None:
                return Stored(known[1], True)
        for body in request.bodies:
            seq = self._writer.execute("INSERT INTO rows (body) VALUES (?)", (body,)).lastrowid
        assert seq is not None
        if request.key is not None:
            self._writer.execute("INSERT INTO keys VALUES (?, ?, ?)", (request.key, digest, seq))
        return Stored(seq, False)

    def _reopen(self) -> None:
        """Go back to the last commit. After an input/output error SQLite requires a new connection."""
        with suppress(sqlite3.Error):
            self._writer.execute("ROLLBACK")
        try:
            new = self._connect()
        except sqlite3.Error:
            return
        with suppress(sqlite3.Error):
            self._writer.close()
        self._writer = new

    # -- reading ---------------------------------------------------------------------------------------------------

    def rows(self, after: int, limit: int) -> list[Row]:
        """The first rows behind a position."""
        sql = "SELECT seq, body, refused IS NOT NULL FROM rows WHERE seq > ? ORDER BY seq LIMIT ?"
        with self._lock:
            found = [Row(*row) for row in self._reader.execute(sql, (after, limit))]
        self.last = max([self.last, *(row.seq for row in found[-1:])])
        return found

    def bounds(self) -> tuple[int, int]:
        """(last row that was removed, last row that was written)."""
        with self._lock:
            first, last = self._reader.execute("SELECT min(seq), max(seq) FROM rows").fetchone()
            if first is None:
                found = self._reader.execute("SELECT seq FROM sqlite_sequence WHERE name = 'rows'").fetchone()
                first = (found[0] if found else 0) + 1
        return first - 1, first - 1 if last is None else last

    def versions(self) -> dict[int, str]:
        """The versions of the model, each with the checksum of the file that it was made from."""
        with self._lock:
            return dict(self._reader.execute("SELECT version, source FROM versions ORDER BY version").fetchall())

    # -- the learner's notes ---------------------------------------------------------------------------------------

    def add_version(self, version: int, source: str) -> None:
        """Note a new version of the model."""
        with self._lock:
            self._reader.execute("INSERT OR REPLACE INTO versions VALUES (?, ?)", (version, source))

    def refuse(self, seq: int, reason: str) -> None:
        """Note that a row cannot be learned; it is skipped from now on."""
        with self._lock:
            self._reader.execute("UPDATE rows SET refused = ? WHERE seq = ?", (reason, seq))

    def truncate(self, seq: int) -> None:
        """Remove the rows up to a position, which a saved model has learned."""
        with self._lock:
            self._reader.execute("BEGIN IMMEDIATE")
            try:
                self._reader.execute("DELETE FROM rows WHERE seq <= ?", (seq,))
                self._reader.execute("DELETE FROM keys WHERE seq <= ?", (seq - KEYS_KEPT,))
                self._reader.execute("COMMIT")
            except sqlite3.Error:
                with suppress(sqlite3.Error):  # SQLite may have done it
                    self._reader.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Write what is waiting, and close the file."""
        self._requests.put(None)
        self._thread.join()
        with self._lock:
            self._reader.close()
        self._writer.close()
