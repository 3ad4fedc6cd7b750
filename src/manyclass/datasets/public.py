"""The public data sets that `fetch` knows: where they live, what they cost, and who reads them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import dense_sets, running_text, sparse_sets
from .packed import Arrays

Parse = Callable[[Path], Arrays]  # the folder of the downloaded files → the arrays of the packed form


@dataclass(frozen=True)
class PublicFile:
    """A file at a set's home.

    Attributes
    ----------
    name : str
        Its name in the download folder; also the name under which a file fetched by hand is put there.
    urls : tuple of str
        Its addresses, tried in this order. None: it cannot be downloaded without a login.
    sha256 : str or None
        Its checksum where one was published or is agreed on by independent sources. None: the checksum of the first
        download is remembered beside the data, and later downloads must have the same.
    size : int or None
        About how many bytes it has, where that is known.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class PublicSet:
    """A public data set.

    Attributes
    ----------
    name : str
        As in `load`.
    title, home, licence, split : str
        For people: what it is, the page that tells of it, on which terms it may be used, how rows are split.
    files : tuple of PublicFile
        What is downloaded.
    parse : callable
        From the folder with these files to the arrays of the packed form.
    rows : tuple of int or None
        Numbers of training and test rows, where they are known: `fetch` refuses others.
    by_hand : str
        How to get the files where they need a login; empty for all others.
    """

    name: str
    title: str
    home: str
    licence: str
    split: str
    files: tuple[PublicFile, ...]
    parse: Parse
    rows: tuple[int, int] | None = None
    by_hand: str = ""

    @property
    def size(self) -> int | None:
        """About how many bytes are downloaded, if known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def _drive(number: str, key: str = "") -> str:
    """The download address of a file on Google Drive; old files also want their resource key."""
    suffix = f"&resourcekey={key}" if key else ""
    return f"https://drive.usercontent.google.com/download?id={number}&export=download&confirm=t{suffix}"


_XC = "http://manikvarma.org/downloads/XC/XMLRepository.html"
_XC_LICENCE = "none stated; cite the repository (Bhatia et al. 2016) and the set's source"
_RANDEMBED = "https://raw.githubusercontent.com/pmineiro/randembed/e50105b0c8530b1c93075d1f73f1188290d22d6d/aloi"
_FIGSHARE = "https://ndownloader.figshare.com/files"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel"
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
_ODP = ("http://hunch.net/~vw", "http://hunch.net/~jl")


def _mnist(name: str, size: int, sha256: str) -> PublicFile:
    return PublicFile(name, tuple(f"{mirror}/{name}" for mirror in _MNIST), sha256, size)


def _rcv1(name: str, number: int, sha256: str) -> PublicFile:
    return PublicFile(name, (f"{_FIGSHARE}/{number}",), sha256)


def _enwik(number: int, size: int, words: int, sha1: str) -> PublicSet:
    name = f"enwik{number}"
    return PublicSet(
        name,
        f"the first 10^{number} bytes of the English Wikipedia of 2006 as words, {words:,} of them known",
        "http://mattmahoney.net/dc/textdata.html",
        "GFDL and CC BY-SA (Wikipedia)",
        "in order: 90 % training, 5 % validation, 5 % test",
        (PublicFile(f"{name}.zip", (f"http://mattmahoney.net/dc/{name}.zip",), None, size),),
        partial(running_text.wikipedia, name=name, n_words=words, sha1=sha1),
    )


def _repository(name: str, title: str, drives: tuple[str, ...], rows: tuple[int, int], parse: Parse) -> PublicSet:
    """A set of the Extreme Classification Repository."""
    file = PublicFile(f"{name}.zip", drives)
    split = "the repository's" if parse is not sparse_sets.one_file_zip else "the first of the repository's ten"
    return PublicSet(name, title, _XC, _XC_LICENCE, split, (file,), parse, rows)


_SETS = (
    PublicSet(
        "aloi",
        "object images as colour histograms, 1,000 objects",
        "https://github.com/pmineiro/randembed/tree/master/aloi",
        "public domain dedication of that repository; cite Geusebroek et al. 2005",
        "the papers' own",
        tuple(PublicFile(f"aloi_{part}.vw.gz", (f"{_RANDEMBED}/aloi_{part}.vw.gz",)) for part in ("train", "test")),
        sparse_sets.aloi,
        (97_200, 10_800),
    ),
    PublicSet(
        "isolet",
        "spoken letters",
        "https://archive.ics.uci.edu/dataset/54/isolet",
        "CC BY 4.0",
        "published: speakers 1 to 120, and 121 to 150",
        (PublicFile("isolet.zip", ("https://archive.ics.uci.edu/static/public/54/isolet.zip",)),),
        dense_sets.isolet,
        (6_238, 1_559),
    ),
    PublicSet(
        "mnist",
        "handwritten digits",
        "https://yann.lecun.com/exdb/mnist",
        "LeCun, Cortes and Burges; commonly given as CC BY-SA 3.0",
        "published",
        (
            _mnist(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _mnist(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _mnist(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _mnist(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        dense_sets.mnist,
        (60_000, 10_000),
    ),
    PublicSet(
        "rcv1",
        "Reuters news and their 103 topics, all of them (about 656 MB)",
        "http://www.ai.mit.edu/projects/jmlr/papers/volume5/lewis04a/lyrl2004_rcv1v2_README.htm",
        "Reuters' terms for research; cite Lewis et al. 2004",
        "LYRL2004: by date",
        (
            _rcv1(
                "lyrl2004_vectors_train.dat.gz",
                5976057,
                "5468f656d0ba7a83afc7ad44841cf9a53048a5c083eedc005dcdb5cc768924ae",
            ),
            _rcv1(
                "lyrl2004_vectors_test_pt0.dat.gz",
                5976069,
                "ed40f7e418d10484091b059703eeb95ae3199fe042891dcec4be6696b9968374",
            ),
            _rcv1(
                "lyrl2004_vectors_test_pt1.dat.gz",
                5976066,
                "87700668ae45d45d5ca1ef6ae9bd81ab0f5ec88cc95dcef9ae7838f727a13aa6",
            ),
            _rcv1(
                "lyrl2004_vectors_test_pt2.dat.gz",
                5976063,
                "48143ac703cbe33299f7ae9f4995db49a258690f60e5debbff8995c34841c7f5",
            ),
            _rcv1(
                "lyrl2004_vectors_test_pt3.dat.gz",
                5976060,
                "dfcb0d658311481523c6e6ca0c3f5a3e1d3d12cde5d7a8ce629a9006ec7dbb39",
            ),
            _rcv1(
                "rcv1v2.topics.qrels.gz", 5976048, "2a98e5e5d8b770bded93afc8930d88299474317fe14181aee1466cc754d0d1c1"
            ),
        ),
        sparse_sets.rcv1,
        (23_149, 781_265),
    ),
    PublicSet(
        "rcv1-topics",
        "Reuters news and 101 topics, five samples joined",
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel.html",
        "Reuters' terms for research; cite Lewis et al. 2004",
        "the different rows of LIBSVM's five training samples; those of its five test samples that are not among them",
        tuple(
            PublicFile(f"{name}.svm.bz2", (f"{_LIBSVM}/{name}.svm.bz2",))
            for name in (f"rcv1subset_topics_{part}_{i}" for part in ("train", "test") for i in range(1, 6))
        ),
        sparse_sets.rcv1_samples,
    ),
    _enwik(8, 36_445_475, 49_999, "57b8363b814821dc9d47aa4d41f58733519076b2"),
    _enwik(9, 322_592_222, 80_000, "2996e86fb978f93cca8f566cc56998923e7fe581"),
    # The repository's addresses first; then the copies that the author of napkinXC keeps, since the former are
    # reported to fail.
    _repository(
        "eurlex-4k",
        "laws of the EU and their subjects, 3,993 labels",
        (
            _drive("0B3lPMIHmG6vGU0VTR1pCejFpWjg", "0-SurjZ4z_5Tr38jENzf2Iwg"),
            _drive("1xWW1UykQBTD2IorVn7V8XubJatQDScol"),
        ),
        (15_539, 3_809),
        sparse_sets.two_file_zip,
    ),
    _repository(
        "wiki10-31k",
        "Wikipedia articles and their tags, 30,938 labels",
        (_drive("0B3lPMIHmG6vGaDdOeGliWF9EOTA"), _drive("1uV-p682ggXQQTiKZyK5M6B0xJJk8_lJx")),
        (14_146, 6_616),
        sparse_sets.two_file_zip,
    ),
    _repository(
        "amazoncat-13k",
        "products and their categories, 13,330 labels",
        (_drive("0B3lPMIHmG6vGa2tMbVJGdDNSMGc"), _drive("1WvBWF9hH5ZlFcpCRhp8wLVGwdeGZXKD2")),
        (1_186_239, 306_782),
        sparse_sets.two_file_zip,
    ),
    _repository(
        "bibtex",
        "bibliography entries and their tags, 159 labels",
        (_drive("0B3lPMIHmG6vGcy1xM2pJZ09MMGM"),),
        (4_880, 2_515),
        sparse_sets.one_file_zip,
    ),
    _repository(
        "delicious",
        "web pages and their tags, 983 labels",
        (_drive("0B3lPMIHmG6vGdG1jZ19VS2NWRVU"),),
        (12_920, 3_185),
        sparse_sets.one_file_zip,
    ),
    PublicSet(
        "odp",
        "web pages of the Open Directory Project, 105,033 categories",
        "https://github.com/VowpalWabbit/vowpal_wabbit/tree/master/demo/recall_tree/odp",
        "none stated; texts of the Open Directory Project",
        "the Recall Tree paper's",
        tuple(
            PublicFile(f"odp_{part}.vw.gz", tuple(f"{home}/odp_{part}.vw.gz" for home in _ODP))
            for part in ("train", "test")
        ),
        sparse_sets.odp,
    ),
    PublicSet(
        "lshtc",
        "Wikipedia articles and 325,056 categories: the Kaggle challenge LSHTC of 2014",
        "https://www.kaggle.com/c/lshtc/data",
        "the rules of the competition, to be accepted at Kaggle",
        "the challenge's test labels are secret: one training row in ten, drawn with the fixed seed 0, is the test",
        (PublicFile("train.csv", ()),),
        sparse_sets.lshtc,
        by_hand="Log in at https://www.kaggle.com/c/lshtc/data, accept the rules, download train.zip or "
        "train-remapped.zip and unpack it",
    ),
)

PUBLIC_SETS = {entry.name: entry for entry in _SETS}
