"""The sets that no choice was made on: readers, split, features, files and the page. Uses no network."""

import gzip
import io
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.cell import read_texts, write_texts
from benchmarks.race_run import Plan, read_cells, run_race
from benchmarks.runners import fast_text
from benchmarks.sets import SetUnavailable, prepare, texts_of
from benchmarks.unseen import archives, build, causes, readers, run
from benchmarks.unseen.prepare import characters, embedded, measures, mixed, repeated, split, trim, words
from benchmarks.unseen.readers import Table
from manyclass.datasets.packed import write_packed

INDEX = """Package: libfoo1
Source: foo (1.2-3)
Maintainer: A Team <a@example.org>
Installed-Size: 20
Depends: libc6 (>= 2.34), libbar
Description: foo for programs
 a line that goes on
Section: libs
Size: 5000

Package: foo
Maintainer: A Team <a@example.org>
Description: foo itself
Section: utils
Size: 7
"""


def table(n_labels=6, n_rows=10):
    """Words of which one names the label, in another order for each row, with a category and numbers."""
    rng = np.random.default_rng(0)
    labels = [f"label {i % n_labels}" for i in range(n_labels * n_rows)]
    texts = [
        f"word{i % n_labels} common {' '.join(f'noise{j}' for j in rng.integers(0, 50, 3))} r{i}" for i in range(60)
    ]
    return Table(labels, texts, [f"kind {i % 3}" for i in range(60)], rng.normal(1000, 10, (60, 2)))


def test_fields_of_a_debian_index():
    rows = archives.stanzas(INDEX)
    assert [row["Package"] for row in rows] == ["libfoo1", "foo"]
    assert rows[0]["Description"] == "foo for programs"


def test_the_label_of_a_binary_package_is_its_source():
    made = readers.sources(archives.stanzas(INDEX), least=2)
    assert list(made.labels) == ["foo", "foo"]
    assert list(made.texts) == ["foo for programs", "foo itself"]
    assert len(readers.sources(archives.stanzas(INDEX), least=3).labels) == 0


def test_a_source_package_is_one_row_with_its_numbers():
    made = readers.maintainers(archives.stanzas(INDEX))
    assert list(made.labels) == ["A Team <a@example.org>"]
    assert list(made.texts) == ["libfoo foo for programs"]
    assert list(made.categories) == ["libs"]
    np.testing.assert_array_equal(made.numbers, [[20, 5000, 2]])


def test_members_of_a_debian_package(tmp_path):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:xz") as file:
        for name, data in (("./usr/b.txt", b"second"), ("./usr/a.txt", b"first"), ("./usr/a.bin", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    parts = {"debian-binary": b"2.0", "data.tar.xz": tar.getvalue()}
    package = b"!<arch>\n"
    for name, data in parts.items():
        package += f"{name:<16}{0:<12}{0:<6}{0:<6}{0:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    assert dict(archives.ar_members(package)) == parts
    (tmp_path / "some_1.deb").write_bytes(package)
    archives.debian_index.cache_clear()
    index = b"Package: some\nFilename: pool/some_1.deb\n"
    (tmp_path / "Packages.xz").write_bytes(archives.lzma.compress(index))
    assert list(archives.debian_files("some", tmp_path, "*.txt")) == [("usr/a.txt", b"first"), ("usr/b.txt", b"second")]
    with pytest.raises(archives.FetchError, match="no package other"):
        list(archives.debian_files("other", tmp_path, "*"))


def test_files_of_a_wheel(tmp_path):
    (tmp_path / "some-1.0").mkdir()
    with zipfile.ZipFile(tmp_path / "some-1.0" / "some-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("some/data/a.txt", "text")
        wheel.writestr("some/code.py", "code")
    assert list(archives.pypi_files("some==1.0", tmp_path, "*/data/*")) == [("some/data/a.txt", b"text")]


def test_licences_have_one_key():
    rules = [
        ("a", b"---\nlicense_expression: mit\n---\n\nUnder the MIT\nlicence"),
        ("b", b"---\r\nlicense_expression: eupl-1.0\r\n---\r\n\r\nEUPL --- text"),
        ("c", b"---\nlicense_expression: mit AND bsd\n---\nboth"),
        ("d", b"---\nis_false_positive: yes\nlicense_expression: mit\n---\nmit"),
    ]
    made = readers.licences(rules)
    assert list(zip(made.labels, made.texts, strict=True)) == [
        ("mit", "Under the MIT licence"),
        ("eupl-1.0", "EUPL --- text"),
    ]


def test_messages_have_their_language():
    texts = {"": "Content-Type: text/plain; charset=UTF-8\n", "yes": "oui", "no\nway": "jamais de\nla vie", "open": ""}
    keys, values = [key.encode() for key in texts], [value.encode() for value in texts.values()]
    place, tables = 28 + 16 * len(keys), b""
    for strings in (keys, values):
        for text in strings:
            tables += len(text).to_bytes(4, "little") + place.to_bytes(4, "little")
            place += len(text) + 1
    head = (0x950412DE, 0, len(keys), 28, 28 + 8 * len(keys), 0, 0)
    data = b"".join(number.to_bytes(4, "little") for number in head) + tables + b"\0".join([*keys, *values]) + b"\0"
    made = readers.messages([("x/locale/fr/LC_MESSAGES/django.mo", data)])
    assert sorted(zip(made.labels, made.texts, strict=True)) == [("fr", "jamais de la vie"), ("fr", "oui")]


def test_paragraphs_of_a_manual_page():
    source = '.\\" a comment\n.TH x 3\n.SH NAME\nx \\- does \\fIthis\\fP\n.PP\nThe call\n.BR x ()\nfails.\n'
    assert readers.paragraphs(source) == ["x - does this", "The call x () fails."]
    pages = [("man3/x.3.gz", gzip.compress(source.encode())), ("man3/y.3.gz", gzip.compress(b".so man3/x.3\n"))]
    assert list(readers.manual_pages(pages, least_words=4).labels) == ["x.3", "x.3"]


def test_devices_have_their_vendor():
    lines = b"# \n0014  Loongson\n\t7a00  A Bridge\n\t\t0001 0002  x\n0015  Other\n\t0001  Card\nC 00  Class\n\t00  No"
    made = readers.devices(lines)
    assert list(zip(made.labels, made.texts, strict=True)) == [("Loongson", "A Bridge"), ("Other", "Card")]


def test_pieces_of_code():
    made = readers.code([("t/c/a.c", b"int a;\n\nint b;\nint c;\n"), ("t/c/a.c.output", b"no")], n_lines=2)
    assert list(zip(made.labels, made.texts, strict=True)) == [("c", "int a; int b;"), ("c", "int c;")]


def test_numbers_of_letters_and_cities():
    made = readers.letters(b"@data\n2,4, 4, Z\n1,0,2,P\n")
    assert list(made.labels) == ["Z", "P"]
    np.testing.assert_array_equal(made.numbers, [[2, 4, 4], [1, 0, 2]])
    city = (
        b'{"7": {"geonameid": 7, "name": "A  B", "latitude": 1.5, "longitude": -2, "population": 9, "timezone": "T"}}'
    )
    made = readers.cities(city)
    assert (list(made.labels), list(made.texts)) == (["T"], ["A B"])
    np.testing.assert_array_equal(made.numbers, [[1.5, -2, 9]])


def test_characters_that_a_font_lacks_are_left_out():
    font = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    made = readers.glyphs([("font", font.read_bytes())], ["A", "\u6f22", "B", " "])
    assert list(made.labels) == ["A", "B"]
    assert made.numbers.shape == (2, 576) and made.numbers.max() > 200
    sample = readers.kanji(5)
    assert sample == sorted(set(sample)) and all("\u4e00" <= character <= "\u9fff" for character in sample)


def test_rows_per_label_are_bounded_and_do_not_repeat():
    given = Table([*"aaaaab", "b"], ["x", "x", "y", "z", "w", "x", "x"])
    made = trim(given, least=2, most=3)
    assert list(made.labels) == ["a"] * 3
    assert len(set(made.texts)) == 3
    assert trim(given, 2, 3) == made


@pytest.mark.parametrize("features", [words, characters, measures, mixed(words)])
def test_split(features):
    made = split(trim(table(), 5, 10), features)
    assert made.X_train.shape[0] == len(made.y_train) == 48
    assert made.X_test.shape[0] == len(made.y_test) == 12
    np.testing.assert_array_equal(np.bincount(made.y_test), [2] * 6)
    assert made.X_train.dtype == made.X_test.dtype == np.float32
    assert not set(made.texts[0]) & set(made.texts[1])
    assert all(f"word{y} " in text for y, text in zip(made.y_test, made.texts[1], strict=True))


def test_test_rows_that_training_has_are_left_out():
    np.testing.assert_array_equal(repeated(["a", "b"], ["c", "b"]), [False, True])
    texts = [f"{common} Zeta alpha mu" for common in ("one", "two", "three", "four", "five")]
    for some in (texts, [text.lower() for text in texts]):  # the same words: the same features
        twice = Table(["a"] * 5 + ["b"] * 5, texts + some[::-1])
        for features in (words, characters):
            made = split(twice, features)
            assert (made.X_train.shape[0], made.X_test.shape[0]) == (8, 0)
    assert split(Table(["a"] * 5 + ["b"] * 5, [f"x{i} y" for i in range(10)]), words).X_test.shape[0] == 2
    same = Table(["a"] * 5 + ["b"] * 5, [f"text {i}" for i in range(10)], (), np.ones((10, 1)))
    assert split(same, measures).X_test.shape == (0, 1)


def test_features_come_from_training_rows_only():
    train, test = Table(["a", "b"], ["one two", "two three"]), Table(["a"], ["two new"])
    X, X_test = words(train, test)
    assert X.shape == (2, 3) and X_test.shape == (1, 3) and X_test.nnz == 1
    train = Table(list("ab") * 200, [f"w{i} v{i % 7}" for i in range(400)])
    assert embedded(train, test)[0].shape == (400, 300)


def test_mixed_columns_stay_as_they_are():
    train = Table(["a", "b"], ["one", "two"], ["k", "l"], np.array([[5000.0], [7.0]]))
    test = Table(["a"], ["one"], ["new"], np.array([[3.0]]))
    X, X_test = mixed(words)(train, test)
    np.testing.assert_array_equal(X.toarray(), [[1, 0, 1, 0, 5000], [0, 1, 0, 1, 7]])
    np.testing.assert_array_equal(X_test.toarray(), [[1, 0, 0, 0, 3]])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two sets as `build.py` leaves them: sparse with texts, dense without."""
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    write_packed(tmp_path / "unseen-devices.npz.xz", build.pack(split(table(), mixed(words))))
    dense = Table(table().labels, (), (), table().numbers)
    write_packed(tmp_path / "unseen-letters.npz.xz", build.pack(split(dense, measures)))
    return tmp_path


def test_built_sets_are_loaded_as_they_are(folder):
    made = split(table(), mixed(words))
    X, y, X_test, y_test = prepare(run.SETS["unseen-devices"])
    assert abs(X - made.X_train).max() == abs(X_test - made.X_test).max() == 0
    np.testing.assert_array_equal(np.concatenate([y, y_test]), np.concatenate([made.y_train, made.y_test]))
    texts = texts_of(run.SETS["unseen-devices"])
    assert [list(part) for part in texts] == [*made.texts]
    assert [len(part) for part in texts_of(run.SETS["unseen-devices"], 7, 3)] == [7, 3]
    np.testing.assert_array_equal(prepare(run.SETS["unseen-letters"])[0], split(table(), measures).X_train)
    with pytest.raises(SetUnavailable, match="unseen-letters has no texts"):
        texts_of(run.SETS["unseen-letters"])


def test_texts_reach_fasttext_as_they_are(tmp_path):
    texts = np.array(["one  \u00e9t\u00e9", ""], object), np.array(["two"], object)
    write_texts(tmp_path, texts)
    for got, given in zip(read_texts(tmp_path), texts, strict=True):
        np.testing.assert_array_equal(got, given)
    fast_text._write_text(tmp_path / "train.txt", texts[0], sp.csr_matrix(np.eye(2)))
    assert (tmp_path / "train.txt").read_text(encoding="utf-8") == "__label__0 one  \u00e9t\u00e9\n__label__1 \n"


def test_run_writes_the_page(folder, capsys):
    peers = ("sklearn-linear-svc", "sklearn-10-neighbours")
    plan = Plan(
        folder / "cells", folder / "environments", sets=["unseen-devices"], entrants=("recall-tree", *peers),
        known_sets=run.SETS, known_entrants=run.ENTRANTS, threads=1,
        commands={name: [sys.executable] for name in peers},
    )  # fmt: skip
    run_race(plan, lambda line: None)
    cells = read_cells(plan.cells, run.SETS, run.ENTRANTS)
    assert [cell["state"] for cell in cells] == ["done"] * 3
    assert run.main(["--page-only"], home=folder) == 0
    text = (folder / "results.md").read_text(encoding="utf-8")
    assert text in capsys.readouterr().out
    assert "| devices | PCI device → vendor | Debian pci.ids | 48 | 12 | 6 |" in text
    assert "| set | RecallTree | LinearSVC | 10-NN |" in text
    assert all(f"{100 * cell['precision']['1']:.2f}" in text for cell in cells)


def test_causes_of_losses(folder, capsys):
    assert causes.scale_ratio(np.array([[1, 0, 30, 0.5], [1, 0, 40, 0.5]])) == pytest.approx(np.sqrt(1250))
    assert causes.main(["--sets", "letters", "kanji", "--entrants", "recall-tree"]) == 0
    told = capsys.readouterr()
    assert "kanji: left out" in told.err
    assert told.out.splitlines()[0] == f"| {' | '.join(causes.HEAD)} |"
    training, test, recall = (float(word) for word in told.out.splitlines()[2].split(" | ")[2:5])
    assert 0 < training <= 100 and 0 <= test <= recall <= 100


def test_a_set_that_cannot_be_fetched_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(archives, "MIRROR", (tmp_path / "nowhere").as_uri())
    archives.debian_index.cache_clear()
    assert build.main(["--folder", str(tmp_path), "--sets", "sources"]) == 1
    assert "sources: left out, file://" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_run_that_is_told_to_end_ends_its_cell(folder):
    """SIGTERM during a cell: exit status 130 and no process left."""
    lines = "import sys; from pathlib import Path; from benchmarks.unseen import run; "
    lines += f"sys.exit(run.main(['--sets', 'letters', '--entrants', 'recall-tree'], home=Path({str(folder)!r})))"
    process = subprocess.Popen([sys.executable, "-c", lines], cwd=run.ROOT, stderr=subprocess.PIPE, text=True)
    threads, cells = Path(f"/proc/{process.pid}/task"), []
    while not cells:
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()[1]
        children = [child for path in threads.glob("*/children") for child in path.read_text().split()]
        found = [Path(f"/proc/{child}") for child in children]
        cells = [path for path in found if path.exists() and "benchmarks.cell" in (path / "cmdline").read_text()]
    process.terminate()
    assert "the same command goes on" in process.communicate()[1]
    assert process.returncode == 130
    assert not cells[0].exists()
