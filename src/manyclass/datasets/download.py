"""One file from the network: resumed where it broke off, verified, and only then given its name."""

import hashlib
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .drive import confirmed_address, title_of
from .errors import DownloadError

try:
    import fcntl
except ImportError:  # Windows has other locks; there two downloads at once are the user's to avoid
    fcntl = None  # type: ignore[assignment]

Show = Callable[[int, int | None], None]  # bytes so far, bytes in all if known

_WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before the next try
_TIMEOUT = 60.0  # seconds without a byte
_PIECE = 2**18
_PAGE = 2**20  # bytes of a web page that are looked at
_PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers that may be another in a while
_AGENT = "manyclass-datasets"


class _Passing(Exception):
    """A try failed in a way that may not happen again."""


class _Final(Exception):
    """A try failed, and the next would too."""


@dataclass
class _Part:
    """A file on its way: FILE.part, and FILE.part.json that says which file of the network it is a part of."""

    path: Path
    note: Path
    facts: dict[str, Any]

    @classmethod
    def of(cls, target: Path, url: str) -> "_Part":
        """The part of an earlier call, if it was of the same address; else an empty one."""
        path, note = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.json")
        facts: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            read = json.loads(note.read_text(encoding="utf-8"))
            facts = read if isinstance(read, dict) else {}
        part = cls(path, note, facts)
        if facts.get("url") != url:
            part.begin({"url": url})
        return part

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def begin(self, facts: dict[str, Any]) -> None:
        """Start with no bytes; the note is written first, so that bytes never stand beside a wrong one."""
        self.path.unlink(missing_ok=True)
        self.facts = facts
        self.note.write_text(json.dumps(facts), encoding="utf-8")

    def remove(self) -> None:
        """Forget it."""
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(url: str, target: Path, sha256: str | None = None, show: Show = lambda done, total: None) -> None:
    """Fetch an address into a file.

    A download that breaks off leaves ``FILE.part``, from which the next call goes on. The file gets its name when all
    bytes are there and the checksum, if one is given, is right.

    Parameters
    ----------
    url : str
        The address, http or https.
    target : pathlib.Path
        The file to make; its folder is made too.
    sha256 : str or None
        The checksum that the file must have.
    show : callable
        Called with the bytes so far and in all (None: not known).

    Raises
    ------
    DownloadError
        With the address and the reason.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        part = _Part.of(target, url)
        try:
            _complete(part, url, show)
        except DownloadError:
            raise
        except OSError as error:  # of the disk: those of the network are told apart below
            raise DownloadError(
                f"{url}: cannot write {part.path}: {error.strerror or error}. "
                "Make room or set MANYCLASS_CACHE to another folder; what is there is kept and the next call goes on."
            ) from error
        found = sha256_of(part.path) if sha256 is not None else None
        if found != sha256:
            part.remove()
            raise DownloadError(
                f"{url}: the file has the SHA-256 {found}, not the known {sha256}. It was damaged on the way or is "
                "another file; it is deleted. Try again; if it stays so, the file at its home has changed."
            )
        os.replace(part.path, target)
        part.remove()


def _complete(part: _Part, url: str, show: Show) -> None:
    """Try until all bytes are there. Only tries in a row that bring nothing count against the patience."""
    failures = 0
    while True:
        before = part.size
        try:
            return _attempt(part, url, show)
        except _Final as error:
            raise DownloadError(f"{url}: {error}") from error
        except _Passing as error:
            failures = 1 if part.size > before else failures + 1
            if failures > len(_WAITS):
                kept = f" {part.size:,} bytes are kept and the next call goes on from there." if part.size else ""
                raise DownloadError(f"{url}: {error}, {failures} times in a row.{kept}") from error
            time.sleep(_WAITS[failures - 1])


def _attempt(part: _Part, url: str, show: Show) -> None:
    """One request, from where the part ends."""
    if part.size and part.size == part.facts.get("total"):  # killed between the last byte and the name
        return
    with _answer(part, url) as answer:
        total = _total(answer)
        if answer.status == 206:
            place, known = answer.headers.get("Content-Range", ""), part.facts.get("total")
            if not place.startswith(f"bytes {part.size}-") or (known is not None and total != known):
                part.begin({"url": url})
                raise _Passing("the server sent another part than was asked for")
        else:
            part.begin({"url": url, "total": total} | _validators(answer))
        _check_room(part, total)
        with open(part.path, "ab") as file:
            for piece in _pieces(answer):
                _append(file, piece)
                show(file.tell(), total)
    if total is not None and part.size != total:
        raise _Passing(f"the connection broke off after {part.size:,} of {total:,} bytes")


def _answer(part: _Part, url: str) -> Any:
    """The server's answer to a request for the bytes that are still wanted."""
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    if part.size:
        headers["Range"] = f"bytes={part.size}-"
        if condition := part.facts.get("etag") or part.facts.get("modified"):
            headers["If-Range"] = condition
    try:
        return _opened(url, headers)
    except _Final as error:
        cause = error.__cause__
        if not (isinstance(cause, urllib.error.HTTPError) and cause.code == 416):
            raise
        part.begin({"url": url})
        raise _Passing("the server has fewer bytes than the part that is here") from cause


def _opened(url: str, headers: dict[str, str]) -> Any:
    """Ask; a page instead of a file is followed if it is Google Drive's question, and refused otherwise."""
    address = url
    for _ in range(2):
        answer = _asked(address, headers)
        kind = answer.headers.get_content_type()
        if kind != "text/html":
            return answer
        with answer:
            page = b"".join(_pieces(answer, _PAGE)).decode("utf-8", "replace")
        following = confirmed_address(page, address)
        if following is None:
            break
        address = following
    raise _Final(f"the server answered with a web page ({title_of(page) or 'without a title'}) instead of the file")


def _asked(url: str, headers: dict[str, str]) -> Any:
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        what = f"the server answered {error.code} {error.reason}"
        raise (_Passing if error.code in _PASSING else _Final)(what) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _Passing(f"no connection ({reason})") from error
    except ValueError as error:
        raise _Final(f"not an address ({error})") from error


def _pieces(answer: Any, most: int | None = None) -> Iterator[bytes]:
    """The bytes of the answer; a connection that breaks is told apart from a disk that fails."""
    left = most
    while left is None or left > 0:
        try:
            piece = answer.read(_PIECE if left is None else min(left, _PIECE))
        except (OSError, http.client.HTTPException) as error:
            raise _Passing(f"the connection broke off ({error})") from error
        if not piece:
            return
        left = None if left is None else left - len(piece)
        yield piece


def _append(file: BinaryIO, piece: bytes) -> None:
    file.write(piece)


def _total(answer: Any) -> int | None:
    """The length of the whole file, if the server says it."""
    if answer.status == 206:
        whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
        return int(whole) if whole.isdecimal() else None
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _validators(answer: Any) -> dict[str, str]:
    """What tells this version of the file from others. Weak tags do not: they must not stand in If-Range."""
    etag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
    strong = {"etag": etag} if etag and not etag.startswith("W/") else {}
    return strong | ({"modified": modified} if modified else {})


def _check_room(part: _Part, total: int | None) -> None:
    left, free = (total or 0) - part.size, shutil.disk_usage(part.path.parent).free
    if left > free:
        raise _Final(
            f"{left:,} bytes are still to come, but {part.path.parent} has room for {free:,} only; "
            "make room or set MANYCLASS_CACHE to another folder"
        )


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Refuse to write a file that another process is downloading; the lock ends with the process."""
    if fcntl is None:
        yield
        return
    with open(target.with_name(f"{target.name}.lock"), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DownloadError(f"{target.name} is being downloaded by another process; wait for it.") from error
        yield
