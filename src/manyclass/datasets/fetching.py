"""From a set's public home into the cache: download, check, read, pack."""

import json
import os
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

from .download import Show, download, sha256_of
from .errors import DataNotFound, DownloadError
from .folders import cache_folder, download_folder, packed_name
from .local import available, find
from .packed import Arrays, write_packed
from .public import PUBLIC_SETS, PublicFile, PublicSet


def fetch(name: str, *, again: bool = False, keep: bool = False, quiet: bool = False) -> Path:
    """Download a public data set from its home into the cache, so that `load` finds it.

    What is there already, in the folder ``MANYCLASS_DATA`` or in the cache, is not fetched again. A download that
    breaks off goes on at the next call.

    Parameters
    ----------
    name : str
        One of `PUBLIC_SETS`.
    again : bool
        Fetch it even if it or its downloads are there; only files put there by hand are used as they are.
    keep : bool
        Leave the downloaded files in the cache after they are packed.
    quiet : bool
        Say nothing on standard error.

    Returns
    -------
    pathlib.Path
        The packed file.

    Raises
    ------
    DownloadError
        When a file cannot be downloaded, or is not the one that is known.
    DataNotFound
        When the set's files need a login and are not where the message says to put them.
    ValueError
        When there is no such public set, or a file is not what it should be.

    Notes
    -----
    A file without a published checksum is trusted when it is first fetched: its SHA-256 is written to
    ``NAME.checksums.json`` beside the packed file, and later downloads from the same address must have the same.

    Examples
    --------
    >>> from manyclass.datasets import fetch
    >>> fetch("no-such-set")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: 'no-such-set' is no public data set; known: aloi, amazoncat-13k, bibtex, ...
    """
    if name not in PUBLIC_SETS:
        raise ValueError(f"{name!r} is no public data set; known: {', '.join(sorted(PUBLIC_SETS))}")
    return fetch_set(PUBLIC_SETS[name], again=again, keep=keep, quiet=quiet)


def fetch_set(wanted: PublicSet, *, again: bool = False, keep: bool = False, quiet: bool = False) -> Path:
    """The same for a set that is given rather than named."""
    target = cache_folder() / packed_name(wanted.name)
    if not again and available(wanted.name):
        return Path(str(find(wanted.name)))
    folder = download_folder(wanted.name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"Cannot make the folder {folder}: {error.strerror}. Set MANYCLASS_CACHE to a folder that can be written."
        ) from error
    for file in wanted.files:
        if again and _origin(folder / file.name).exists():  # downloaded, not put there by hand
            (folder / file.name).unlink(missing_ok=True)
        _obtain(wanted, file, folder, quiet)
    _say(f"{wanted.name}: reading", quiet)
    arrays = _parsed(wanted, folder)
    _say(f"{wanted.name}: {_told(arrays)}; packing", quiet)
    write_packed(target, arrays)
    _Trusted(wanted).remember(folder)
    if not keep and not wanted.by_hand:
        shutil.rmtree(folder)
    return target


def _obtain(wanted: PublicSet, file: PublicFile, folder: Path, quiet: bool) -> None:
    """Have the file in the folder: it may lie there, from an earlier call or by hand; else from its addresses."""
    target = folder / file.name
    if target.is_file():
        if file.sha256 is not None and (found := sha256_of(target)) != file.sha256:
            raise DownloadError(f"{target} has the SHA-256 {found}, not the known {file.sha256}; delete it.")
        return
    if not file.urls:
        raise DataNotFound(
            f"{file.name} of {wanted.name} cannot be downloaded without a login. {wanted.by_hand}; "
            f"then put {file.name} into {folder} and call again: manyclass data {wanted.name}"
        )
    reasons = []
    for url in file.urls:
        try:
            download(url, target, file.sha256, _shown(file.name, quiet))
            if file.sha256 is None:
                _Trusted(wanted).check(target, url)
            return
        except DownloadError as error:
            reasons.append(str(error))
            _say(str(error), quiet)
    raise DownloadError(
        f"{wanted.name} was not fetched: {' | '.join(reasons)} What to do: check the network and call again, or get "
        f"the file in another way ({wanted.home}), put it into {folder} as {file.name} and call again."
    )


def _parsed(wanted: PublicSet, folder: Path) -> Arrays:
    try:
        arrays = wanted.parse(folder)
        _check_rows(wanted, arrays)
        return arrays
    except (ValueError, EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of the data
            raise
        raise ValueError(
            f"The files of {wanted.name} in {folder} cannot be read: {error}. Fetch them anew: manyclass data "
            f"{wanted.name} --again; if it stays so, the files at {wanted.home} have changed."
        ) from error


class _Trusted:
    """The checksums of first downloads, by address; a file is trusted once it could be read."""

    def __init__(self, wanted: PublicSet) -> None:
        self._wanted = wanted
        self._path = cache_folder() / f"{wanted.name}.checksums.json"

    def check(self, file: Path, url: str) -> None:
        """Where a checksum is remembered, the file must have it, or it is deleted. Note where it came from."""
        expected = self._known().get(url, {}).get("sha256")
        if expected is not None and (found := sha256_of(file)) != expected:
            file.unlink()
            raise DownloadError(
                f"{url}: the file has the SHA-256 {found}, but {expected} when it was first fetched. "
                f"If the change is meant, delete {self._path} and fetch again."
            )
        _origin(file).write_text(url, encoding="utf-8")

    def remember(self, folder: Path) -> None:
        """The checksums of downloaded files that have no published one; not of files that came by hand."""
        known = self._known()
        for file in (folder / entry.name for entry in self._wanted.files if entry.sha256 is None):
            if _origin(file).is_file():
                url = _origin(file).read_text(encoding="utf-8")
                known[url] = {"file": file.name, "sha256": sha256_of(file), "bytes": file.stat().st_size}
        if known:
            part = self._path.with_name(f".{self._path.name}.part")
            part.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            os.replace(part, self._path)

    def _known(self) -> dict[str, dict[str, Any]]:
        if not self._path.exists():
            return {}
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
            if all(isinstance(entry["sha256"], str) for entry in known.values()):
                return known
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise DownloadError(f"{self._path} is not a list of checksums; delete it to trust the next download anew.")


def _origin(file: Path) -> Path:
    """The note of the address that a file was downloaded from."""
    return file.with_name(f"{file.name}.url")


def _told(arrays: Arrays) -> str:
    if "train" in arrays:
        return f"{len(arrays['train']):,} words for training, {len(arrays['test']):,} for test"
    return f"{_n_rows(arrays, 'train'):,} training and {_n_rows(arrays, 'test'):,} test rows"


def _check_rows(wanted: PublicSet, arrays: Arrays) -> None:
    """Hold the set to its known numbers of rows."""
    if wanted.rows is None:
        return
    found = tuple(_n_rows(arrays, split) for split in ("train", "test"))
    if found != wanted.rows:
        raise ValueError(f"{found[0]:,} training and {found[1]:,} test rows, but {wanted.rows[0]:,} and "
                         f"{wanted.rows[1]:,} are known")  # fmt: skip


def _n_rows(arrays: Arrays, split: str) -> int:
    shape = arrays.get(f"X_{split}.shape")
    return int(shape[0]) if shape is not None else len(arrays[f"X_{split}"])


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def _shown(name: str, quiet: bool) -> Show:
    """Progress on standard error: a line that is written over on a terminal, a line each tenth elsewhere."""
    if quiet:
        return lambda done, total: None
    on_terminal = sys.stderr.isatty()
    last = -1

    def show(done: int, total: int | None) -> None:
        nonlocal last
        step = done // 2**23 if total is None else done * (100 if on_terminal else 10) // max(total, 1)
        if step == last:
            return
        last = step
        whole = "" if total is None else f" of {total / 1e6:,.1f} MB, {100 * done / max(total, 1):.0f} %"
        line = f"{name}: {done / 1e6:,.1f}{whole or ' MB'}"
        if on_terminal:
            print(f"\r{line}", end="\n" if done == total else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    return show
