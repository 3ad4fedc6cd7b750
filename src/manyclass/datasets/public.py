"""The public data sets that `fetch` can download: addresses, checksums, terms of use and readers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import readers, running_text
from .packed import Arrays


@dataclass(frozen=True)
class PublicFile:
    """A file to download; a zip file is unpacked.

    Attributes
    ----------
    name : str
        Its name in the download folder.
    urls : tuple of str
        Its addresses, tried in this order.
    hash : str or None
        Its SHA-256, or ``"md5:..."``; None if none is known.
    size : int or None
        Its size in bytes, if known.

    Examples
    --------
    >>> from manyclass.datasets import PUBLIC_SETS
    >>> [file.name for file in PUBLIC_SETS["enwik8"].files]
    ['enwik8.zip']
    """

    name: str
    urls: tuple[str, ...]
    hash: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class PublicSet:
    """A public data set.

    Attributes
    ----------
    name : str
        The name for `load` and `fetch`.
    title, home, licence, split : str
        A description, the web page, the terms of use and how the rows are split.
    files : tuple of PublicFile
        The files to download.
    parse : callable
        Takes the folder with these files and returns the arrays of the packed form.
    rows : tuple of int or None
        The numbers of training and test rows, if known; `fetch` rejects other numbers.

    Examples
    --------
    >>> from manyclass.datasets import PUBLIC_SETS
    >>> PUBLIC_SETS["mnist"].rows, PUBLIC_SETS["mnist"].size
    ((60000, 10000), 11594722)
    """

    name: str
    title: str
    home: str
    licence: str
    split: str
    files: tuple[PublicFile, ...]
    parse: Callable[[Path], Arrays]
    rows: tuple[int, int] | None = None

    @property
    def size(self) -> int | None:
        """The number of bytes to download, if known."""
        sizes = [file.size for file in self.files if file.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None


def _files(addresses: tuple[str, ...], *files: tuple[str, int, str]) -> tuple[PublicFile, ...]:
    """Files with their names, sizes and hashes, all at the same addresses."""
    return tuple(PublicFile(name, tuple(f"{url}/{name}" for url in addresses), key, size) for name, size, key in files)


def _enwik(name: str, size: int, n_words: int, file_hash: str) -> PublicSet:
    return PublicSet(
        name, f"the first 10^{name[-1]} bytes of the English Wikipedia of 2006 as words, vocabulary of {n_words:,}",
        "http://mattmahoney.net/dc/textdata.html", "GFDL and CC BY-SA (Wikipedia)",
        "in order: 90 % training, 5 % validation, 5 % test",
        _files(("http://mattmahoney.net/dc",), (f"{name}.zip", size, file_hash)),
        partial(running_text.wikipedia, name=name, n_words=n_words),
    )  # fmt: skip


def _repository(name: str, title: str, drive: str, file_hash: str | None, rows: tuple[int, int]) -> PublicSet:
    """A set of the Extreme Classification Repository, whose files are on Google Drive."""
    several = name in ("bibtex", "delicious")
    url = f"https://drive.usercontent.google.com/download?export=download&confirm=t&id={drive}"
    return PublicSet(
        name, title, "http://manikvarma.org/downloads/XC/XMLRepository.html",
        "none stated; cite the repository (Bhatia et al. 2016) and the source of the set",
        "the first of ten of the repository" if several else "of the repository",
        (PublicFile(f"{name}.zip", (url,), file_hash),),
        readers.repository_with_splits if several else readers.repository, rows,
    )  # fmt: skip


_RANDEMBED = "https://raw.githubusercontent.com/pmineiro/randembed/e50105b0c8530b1c93075d1f73f1188290d22d6d/aloi"
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel"

# fmt: off
_SETS = (
    PublicSet(
        "aloi", "images of 1,000 objects as colour histograms", "https://github.com/pmineiro/randembed/tree/master/aloi",
        "public domain dedication of that repository; cite Geusebroek et al. 2005", "of the papers",
        _files(
            (_RANDEMBED,),
            ("aloi_train.vw.gz", 3_277_091, "a57ffff45421254e964da44c5717c9ddc6b173b6b785d8f4ab3242126b24a551"),
            ("aloi_test.vw.gz", 365_386, "621495dadec0d256e3b4213ea9a91267a8e27c898460eef863b8e37dd656c1db"),
        ),
        readers.aloi, (97_200, 10_800),
    ),
    PublicSet(
        "isolet", "26 spoken letters", "https://archive.ics.uci.edu/dataset/54/isolet", "CC BY 4.0",
        "published: speakers 1 to 120, and 121 to 150",
        (PublicFile("isolet.csv", ("https://archive.ics.uci.edu/static/public/54/data.csv",)),),
        readers.isolet, (6_238, 1_559),
    ),
    PublicSet(
        "mnist", "handwritten digits", "https://yann.lecun.com/exdb/mnist",
        "LeCun, Cortes and Burges; commonly given as CC BY-SA 3.0", "published",
        _files(
            _MNIST,
            (readers.MNIST_FILES[0], 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            (readers.MNIST_FILES[1], 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            (readers.MNIST_FILES[2], 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            (readers.MNIST_FILES[3], 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
        readers.mnist, (60_000, 10_000),
    ),
    PublicSet(
        "rcv1-topics", "Reuters news and 101 topics, five samples joined", f"{_LIBSVM}.html",
        "terms of Reuters for research; cite Lewis et al. 2004",
        "distinct rows of the five training samples of LIBSVM; rows of its five test samples that are not among them",
        tuple(PublicFile(name, (f"{_LIBSVM}/{name}",)) for name in readers.RCV1_FILES), readers.rcv1_topics,
    ),
    _enwik("enwik8", 36_445_475, 49_999, "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc"),
    _enwik("enwik9", 322_592_222, 80_000, "md5:3e773f8a1577fda2e27f871ca17f31fd"),
    _repository("eurlex-4k", "laws of the EU and their subjects, 3,993 labels",
                "0B3lPMIHmG6vGU0VTR1pCejFpWjg&resourcekey=0-SurjZ4z_5Tr38jENzf2Iwg",
                "md5:ec8feb2a9a0bd0f32d8f4c2b00725524", (15_539, 3_809)),
    _repository("wiki10-31k", "Wikipedia articles and their tags, 30,938 labels",
                "0B3lPMIHmG6vGaDdOeGliWF9EOTA", None, (14_146, 6_616)),
    _repository("amazoncat-13k", "products and their categories, 13,330 labels",
                "0B3lPMIHmG6vGa2tMbVJGdDNSMGc", None, (1_186_239, 306_782)),
    _repository("bibtex", "bibliography entries and their tags, 159 labels",
                "0B3lPMIHmG6vGcy1xM2pJZ09MMGM", "md5:78db23bd26486d4188502abf6a39b856", (4_880, 2_515)),
    _repository("delicious", "web pages and their tags, 983 labels",
                "0B3lPMIHmG6vGdG1jZ19VS2NWRVU", "md5:e73730438e67ad179d724503e6770b1a", (12_920, 3_185)),
)
# fmt: on

PUBLIC_SETS = {entry.name: entry for entry in _SETS}
