"""What lies inside downloaded files. A member is found by its last name; where it wants to lie plays no part."""

import bz2
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO


@contextmanager
def zip_member(archive: Path, ending: str) -> Iterator[IO[bytes]]:
    """The one member of a zip file whose last name ends so (in any case of letters), as a stream."""
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(_member(opened, archive, ending)) as stream:
            yield stream
    except zipfile.BadZipFile as error:
        raise ValueError(f"{archive.name} is not a whole zip file: {error}") from error


@contextmanager
def unzipped(archive: Path, ending: str) -> Iterator[Path]:
    """The same as a file on disk, for readers that want a path; it is deleted afterwards."""
    with zip_member(archive, ending) as stream, _on_disk(stream, archive.parent) as path:
        yield path


@contextmanager
def unbzipped(archive: Path) -> Iterator[Path]:
    """The content of a bz2 file on disk; it is deleted afterwards."""
    try:
        with bz2.open(archive, "rb") as stream, _on_disk(stream, archive.parent) as path:
            yield path
    except EOFError as error:
        raise ValueError(f"{archive.name} is cut off") from error


def _member(opened: zipfile.ZipFile, archive: Path, ending: str) -> zipfile.ZipInfo:
    found = []
    for info in opened.infolist():
        path = PurePosixPath(info.filename)
        hidden = path.name.startswith("._") or "__MACOSX" in path.parts
        if not info.is_dir() and not hidden and path.name.lower().endswith(ending.lower()):
            found.append(info)
    if len(found) != 1:
        held = ", ".join(info.filename for info in opened.infolist()[:10])
        raise ValueError(f"{archive.name} must hold one file *{ending}, but has {len(found)}; it holds {held}")
    return found[0]


@contextmanager
def _on_disk(stream: IO[bytes], folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="unpacked-", dir=folder) as room:
        path = Path(room) / "content"
        with open(path, "wb") as file:
            shutil.copyfileobj(stream, file, 2**20)
        yield path
