"""Download a public data set, check it and pack it into the cache."""

import shutil
import sys
import zlib
from pathlib import Path
from zipfile import BadZipFile

from .local import available, cache_folder, find, packed_name
from .packed import Arrays, n_rows, write_packed
from .public import PUBLIC_SETS, PublicFile, PublicSet

_RETRIES = 2  # further attempts per address


class DownloadError(OSError):
    """A download failed. The message names the file, the reason and what to do.

    Examples
    --------
    >>> from manyclass.datasets import DownloadError
    >>> issubclass(DownloadError, OSError)
    True
    """


def fetch(name: str, *, again: bool = False, keep: bool = False, quiet: bool = False, insecure: bool = False) -> Path:
    """Download a public data set into the cache, where `load` finds it.

    A set that is already in the folder ``MANYCLASS_DATA`` or in the cache is not downloaded. Requires pooch:
    ``pip install 'manyclass[data]'``.

    Parameters
    ----------
    name : str
        One of `PUBLIC_SETS`.
    again : bool, default=False
        Download the set even if it is already available.
    keep : bool, default=False
        Keep the downloaded files in the cache after they are packed.
    quiet : bool, default=False
        Print nothing on standard error.
    insecure : bool, default=False
        Accept files without a checksum over plain http, where anybody on the way could have changed them.

    Returns
    -------
    pathlib.Path
        The packed file.

    Raises
    ------
    DownloadError
        If a file cannot be downloaded or its checksum is wrong.
    ImportError
        If pooch is not installed.
    ValueError
        If there is no such public set, or a downloaded file has unexpected content.

    Examples
    --------
    >>> from manyclass.datasets import fetch
    >>> fetch("no-such-set")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: There is no public data set 'no-such-set'; known sets: aloi, amazoncat-13k, bibtex, ...
    """
    if name not in PUBLIC_SETS:
        raise ValueError(f"There is no public data set {name!r}; known sets: {', '.join(sorted(PUBLIC_SETS))}")
    if not again and available(name):
        return Path(str(find(name)))
    entry, folder, target = PUBLIC_SETS[name], cache_folder() / "downloads" / name, cache_folder() / packed_name(name)
    if again:
        shutil.rmtree(folder, ignore_errors=True)
    for file in entry.files:
        plain = [url for url in file.urls if not url.startswith("https:")]
        if plain and file.hash is None and not insecure and not (folder / file.name).exists():
            raise DownloadError(
                f"{name} was not fetched: {file.name} has no checksum, and {plain[0]} is not encrypted. To download it "
                f"nevertheless: manyclass data {name} --insecure"
            )
        _download(entry, file, folder, quiet)
    arrays = _parse(entry, folder)
    write_packed(target, arrays)
    if not quiet:
        print(f"{name}: {n_rows(arrays, 'train'):,} training and {n_rows(arrays, 'test'):,} test rows", file=sys.stderr)
    if not keep:
        shutil.rmtree(folder)
    return target


def _download(entry: PublicSet, file: PublicFile, folder: Path, quiet: bool) -> None:
    """Download one file from the first address that works, and unpack it if it is a zip file.

    A file of that name that is already in the folder is used if its checksum is right.
    """
    try:
        import pooch
    except ImportError as error:
        raise ImportError("Downloading data sets requires pooch: pip install 'manyclass[data]'") from error
    reasons = []
    for url in file.urls:
        if not quiet and not (folder / file.name).exists():
            print(f"{entry.name}: downloading {file.name} from {url}", file=sys.stderr)
        registry, logger = {file.name: file.hash}, pooch.get_logger()
        files = pooch.create(folder, "", registry=registry, urls={file.name: url}, retry_if_failed=_RETRIES)
        try:
            logger.disabled = True  # setLevel has no effect on this logger once it has been used
            files.fetch(file.name, processor=pooch.Unzip(extract_dir=".") if file.name.endswith(".zip") else None)
            return
        except BadZipFile as error:
            (folder / file.name).unlink()
            reasons.append(f"{url}: not a zip file, perhaps a web page ({error})")
        except (OSError, ValueError) as error:  # of the network, the disk or the checksum
            reasons.append(f"{url}: {error}")
        finally:
            logger.disabled = False
    raise DownloadError(
        f"{entry.name} was not fetched. {' | '.join(reasons)}\nCheck the network and the free space in {folder} "
        f"(MANYCLASS_CACHE names another folder), or get the file in another way ({entry.home}), save it as "
        f"{folder / file.name} and run: manyclass data {entry.name}"
    )


def _parse(entry: PublicSet, folder: Path) -> Arrays:
    """Read the downloaded files and compare the number of rows with the known one."""
    try:
        arrays = entry.parse(folder)
        if entry.rows is not None and (found := (n_rows(arrays, "train"), n_rows(arrays, "test"))) != entry.rows:
            raise ValueError(f"found {found[0]:,} training and {found[1]:,} test rows, expected {entry.rows}")
        return arrays
    except (ValueError, EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk failed, not the data
            raise
        raise ValueError(
            f"Cannot read the files of {entry.name} in {folder}: {error}. Download them again: manyclass data "
            f"{entry.name} --again. If the error remains, the files at {entry.home} have changed."
        ) from error
