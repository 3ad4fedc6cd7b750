"""Real tables as people export them: `manyclass train FILE --label L`, and pipelines of scikit-learn made by hand.

    python benchmarks/exported_tables.py                # all tables that can be made on this machine
    python benchmarks/exported_tables.py unicode wine   # some of them
    python benchmarks/exported_tables.py --sorted       # the training file is sorted by label

The command line gets the file and the name of the label, nothing else. The pipelines get the columns by hand: TF-IDF of
words for texts, of 2 to 4 characters in addition for names, one-hot categories, standardised numbers; then LinearSVC,
or LogisticRegression for tables of few classes. Tables come from scikit-learn, from Python itself and from the package
lists of Debian or Ubuntu, which other systems lack.
"""

import argparse
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import unicodedata
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # of the repository: `benchmarks` is not installed

from benchmarks.tables import markdown_table

ROWS = 20_000  # training rows of a large table
FEW_CLASSES = 10  # for which LogisticRegression is fast
SMALL = 5_000  # rows: tables up to this size are divided into five parts, each tested once


class NotHere(Exception):
    """This machine has not what the table is made of."""


class Table(NamedTuple):
    """A table, its label, and the columns that somebody would use, by kind."""

    data: pd.DataFrame
    label: str
    text: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()


# -- tables --------------------------------------------------------------------------------------------------------


def debian() -> pd.DataFrame:
    """The packages of a Debian or Ubuntu release."""
    try:
        out = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise NotHere("apt-cache is missing, this is not Debian or Ubuntu") from None
    rows = []
    for paragraph in out.split("\n\n"):
        fields = (line.partition(": ") for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        row = {name: value for name, _, value in fields}
        if "Section" in row:
            row["Description"] = row.get("Description-en") or row.get("Description", "")
            rows.append(row)
    if len(rows) < ROWS:
        raise NotHere(f"the package lists have {len(rows)} packages only: run apt-get update")
    data = pd.DataFrame(rows).drop_duplicates("Package")
    data["Source"] = data["Source"].fillna(data["Package"]).str.split(" ").str[0]
    return data


def section_of_description() -> Table:
    """The section of a package from its description."""
    return Table(debian()[["Description", "Section"]], "Section", text=("Description",))


def section_of_name() -> Table:
    """The section of a package from its name."""
    return Table(debian()[["Package", "Section"]], "Section", names=("Package",))


def section_of_all() -> Table:
    """The section of a package from all that people would export."""
    texts, names, others = ("Depends", "Description"), ("Package", "Version"), ("Maintainer", "Architecture")
    numbers = ("Installed-Size",)
    data = debian()[[*names, *texts, *others, *numbers, "Section"]]
    return Table(data, "Section", texts, names, others, numbers)


def source_of_description() -> Table:
    """The source package of a package from its description; sources of at least three packages."""
    data = debian()[["Description", "Source"]]
    return Table(data[data.groupby("Source")["Source"].transform("size") >= 3], "Source", text=("Description",))


def maintainer() -> Table:
    """The maintainer of a package; those of at least 20 packages."""
    data = debian()[["Package", "Description", "Section", "Maintainer"]]
    data = data[data.groupby("Maintainer")["Maintainer"].transform("size") >= 20]
    return Table(data, "Maintainer", ("Description",), ("Package",), ("Section",))


def functions() -> Table:
    """The package of a function from its name, its documentation and its number of parameters."""
    rows = []
    for top in ("sklearn", "scipy", "numpy"):
        package = import_module(top)
        names = [m.name for m in pkgutil.walk_packages(package.__path__, f"{top}.", onerror=lambda name: None)]
        for name in names:
            parts = name.split(".")
            if len(parts) < 3 or {"tests", "conftest", "externals"} & set(parts) or "f2py" in name:
                continue
            try:
                with warnings.catch_warnings(), redirect_stdout(StringIO()):
                    warnings.simplefilter("ignore")
                    module = import_module(name)
            except Exception:
                continue
            for function, value in vars(module).items():
                if inspect.isfunction(value) and value.__module__ == name and value.__doc__:
                    code = value.__code__
                    rows.append((function, value.__doc__.split("\n\n")[0], code.co_argcount, ".".join(parts[:2])))
    data = pd.DataFrame(rows, columns=["function", "documentation", "parameters", "package"])
    data = data[data.groupby("package")["package"].transform("size") >= 5]
    return Table(data, "package", ("documentation",), ("function",), (), ("parameters",))


def unicode_characters() -> Table:
    """The general category of a character from its name and number."""
    rows = [(i, unicodedata.name(chr(i), ""), unicodedata.category(chr(i))) for i in range(0x30000)]
    data = pd.DataFrame(rows, columns=["code_point", "name", "category"])
    data = data[(data["name"] != "") & ~data["name"].str.contains("IDEOGRAPH|HANGUL SYLLABLE")]
    data = data[data.groupby("category")["category"].transform("size") >= 20]
    return Table(data, "category", ("name",), (), (), ("code_point",))


def _bundled(load: Callable[..., Any]) -> Callable[[], Table]:
    def table() -> Table:
        bunch = load(as_frame=True)
        data = bunch.data.assign(label=np.asarray(bunch.target_names)[bunch.target].astype(str))
        return Table(data, "label", numeric=tuple(bunch.data.columns))

    table.__doc__ = f"The set {load.__name__.removeprefix('load_')} of scikit-learn, all columns numbers."
    return table


TABLES = {
    "debian-section-description": section_of_description,
    "debian-section-name": section_of_name,
    "debian-section-all": section_of_all,
    "debian-source": source_of_description,
    "debian-maintainer": maintainer,
    "functions": functions,
    "unicode": unicode_characters,
    "digits": _bundled(datasets.load_digits),
    "wine": _bundled(datasets.load_wine),
    "breast-cancer": _bundled(datasets.load_breast_cancer),
}


# -- measurements --------------------------------------------------------------------------------------------------


def splits(data: pd.DataFrame) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """(training rows, test rows): one split, or five for a small table."""
    if len(data) <= SMALL:
        parts = KFold(5, shuffle=True, random_state=0).split(data)
        return [(data.iloc[a], data.iloc[b]) for a, b in parts]
    order = np.random.default_rng(0).permutation(len(data))
    n = min(ROWS, 4 * len(data) // 5)
    return [(data.iloc[order[:n]], data.iloc[order[n : n + ROWS // 4]])]


def by_hand(table: Table, train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Accuracy of a pipeline of scikit-learn."""
    chars = {"analyzer": "char_wb", "ngram_range": (2, 4)}
    steps = [(name, TfidfVectorizer(), name) for name in table.text]
    steps += [(name, make_union(TfidfVectorizer(), TfidfVectorizer(**chars)), name) for name in table.names]
    steps.append(("categories", OneHotEncoder(handle_unknown="ignore"), list(table.categorical)))
    steps.append(("numbers", StandardScaler(), list(table.numeric)))
    few = train[table.label].nunique() <= FEW_CLASSES
    estimator = LogisticRegression(max_iter=1000) if few else LinearSVC()
    texts = dict.fromkeys(table.text + table.names + table.categorical, "")
    numbers = {name: float for name in table.numeric}
    train, test = (rows.fillna(texts).astype(numbers).fillna(dict.fromkeys(numbers, 0.0)) for rows in (train, test))
    clf = make_pipeline(ColumnTransformer(steps, sparse_threshold=1.0), estimator).fit(train, train[table.label])
    return clf.score(test, test[table.label])


def write(folder: str, train: pd.DataFrame, test: pd.DataFrame) -> None:
    """Write train.csv and test.csv."""
    for name, rows in (("train.csv", train), ("test.csv", test)):
        rows.to_csv(Path(folder, name), index=False)


def command(folder: str, *words: str) -> dict[str, Any]:
    """What a command of `manyclass` prints with --json, run in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "manyclass", *words, "--json"], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def by_command(table: Table, train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Accuracy of a model that the command line trains without options."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder, train, test)
        words = ("train", "train.csv", "--label", table.label, "--model", "m", "--test", "test.csv")
        return command(folder, *words)["test"]["accuracy"]


def measure(table: Table, in_order: bool) -> list[str]:
    """Rows, classes, both accuracies and their difference."""
    found = []
    for train, test in splits(table.data):
        theirs = by_hand(table, train, test)
        found.append((theirs, by_command(table, train.sort_values(table.label) if in_order else train, test)))
    theirs, ours = 100 * np.mean(found, axis=0)
    sizes = f"{len(splits(table.data)[0][0]):,}", f"{table.data[table.label].nunique():,}"
    return [*sizes, f"{theirs:.2f}", f"{ours:.2f}", f"{ours - theirs:+.2f}"]


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="default: all")
    parser.add_argument("--sorted", action="store_true", help="sort the training file by label")
    options = parser.parse_args()
    rows = []
    for name in options.tables or TABLES:
        try:
            rows.append([name, *measure(TABLES[name](), options.sorted)])
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
        except NotHere as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
    head = ["table", "training rows", "classes", "scikit-learn, %", "manyclass train, %", "difference"]
    print(markdown_table(head, rows) if rows else "no table could be made")


if __name__ == "__main__":
    main()
