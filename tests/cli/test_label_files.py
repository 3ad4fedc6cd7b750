"""`manyclass train --label-text` and `--hierarchy`."""

import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from manyclass import load_model

THINGS = {"apple": "fruit", "pear": "fruit", "car": "vehicle", "train": "vehicle"}


@pytest.fixture
def things(tmp_path):
    rows = [f"{thing},{word} {thing}" for thing in THINGS for word in ("red", "big", "old", "new")]
    (tmp_path / "things.csv").write_text("\n".join(["thing,text", *rows]))
    (tmp_path / "labels.csv").write_text('label,description\nbicycle,"a bicycle, two wheels"\n\npear,sweet pear\n')
    parents = [f"{thing},{parent}" for thing, parent in (THINGS | {"bicycle": "vehicle"}).items()]
    (tmp_path / "tree.csv").write_text("\n".join(["label,parent", *parents]))
    return "train", "things.csv", "--label", "thing", "--text", "text", "--model", "a.model"


def test_labels_of_the_files_are_predicted(call, things, tmp_path):
    found = call(*things, "--label-text", "labels.csv", "--hierarchy", "tree.csv")
    assert found.code == 0, found.err
    model = load_model("a.model")
    assert model.predict(["the two wheels of a bicycle", "old car"]).tolist() == ["bicycle", "car"]
    assert model.taxonomy_.path("bicycle") == ("vehicle", "bicycle")
    (tmp_path / "new.csv").write_text("text\nold car\nbig big\n")
    expected = model.predict_path(["old car", "big big"], 0.3)
    assert expected.paths[0][0] == "vehicle"
    lines = [line.split("\t") for line in call("predict", "a.model", "new.csv", "--path", 0.3).out.splitlines()]
    assert lines[0] == ["predicted", "probability", "note"]
    assert [line[0] for line in lines[1:]] == [" > ".join(path) for path in expected.paths]
    assert [float(line[1]) for line in lines[1:]] == pytest.approx(expected.probabilities, rel=1e-4)


@pytest.mark.parametrize("words", [(), ("--no-idf",)])
def test_words_that_only_descriptions_have_are_features(call, things, tmp_path, words):
    (tmp_path / "labels.csv").write_text("label,description\nbicycle,pedals wheels\nboat,sails harbour\n")
    found = call(*things, "--label-text", "labels.csv", *words)
    assert found.code == 0, found.err
    model = load_model("a.model")
    assert model.predict(["wheels", "pedals", "harbour", "sails"]).tolist() == ["bicycle"] * 2 + ["boat"] * 2
    assert model.predict(["old car", "red apple"]).tolist() == ["car", "apple"]
    (tmp_path / "new.csv").write_text("text\nwheels\nxyzzy\n")
    assert "1 of 2 rows have no known word" in call("predict", "a.model", "new.csv").err


def test_paths_may_be_given_instead_of_parents(call, things, tmp_path):
    paths = [f"{thing},All > {parent} > {thing}" for thing, parent in THINGS.items()]
    (tmp_path / "paths.csv").write_text("\n".join(["label,path", *paths]))
    assert call(*things, "--hierarchy", "paths.csv").code == 0
    assert load_model("a.model").taxonomy_.path("car") == ("All", "vehicle", "car")


@pytest.mark.parametrize(
    "text, message",
    [
        ("label,text\na,b", "the first line must be 'label,description'."),
        ("label,description\na", "row 1 must be a label and a description, it has 1 fields."),
        ("label,description\na,b\na,c", "row 2 has the label 'a' again."),
        ("label,description\n", "there are no rows."),
        ("label,description\na,caf\xe9", "not UTF-8 text; convert the file to UTF-8."),
        (f"label,description\na,{'b' * 200_000}", "line 2: invalid CSV (field larger than field limit (131072))"),
        ('label,description\na,b\nc,"d\ne,f\n', "line 3: invalid CSV (unexpected end of data)"),
    ],
    ids=lambda value: value[:40],
)
def test_bad_files_are_refused_before_training(call, things, tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text, encoding="latin-1")
    found = call(*things, "--label-text", "labels.csv")
    assert found.code == 1 and f"labels.csv: {message}" in " ".join(found.err.split())
    assert not (tmp_path / "a.model").exists()


def test_the_files_may_be_pipes(call, things, tmp_path):
    writers = []
    for name in ("labels", "tree"):
        os.mkfifo(name)
        writers.append(threading.Thread(target=Path(name).write_text, args=(Path(f"{name}.csv").read_text(),)))
        writers[-1].start()
    found = call(*things, "--label-text", "labels", "--hierarchy", "tree")
    for writer in writers:
        writer.join()
    assert found.code == 0, found.err
    assert load_model("a.model").taxonomy_.path("bicycle") == ("vehicle", "bicycle")


def test_a_long_label_does_not_make_all_others_as_long(call, things, tmp_path):
    others = [f"thing{i},wheel number {i}" for i in range(2000)]
    (tmp_path / "long.csv").write_text("\n".join(["label,description", f"{'x' * 100_000},very long", *others]))
    tracemalloc.start()
    found = call(*things, "--label-text", "long.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.code == 0, found.err
    assert peak < 400e6  # 2,000 labels of 100,000 characters are 800 MB
    assert load_model("a.model").predict(["very long"]).tolist() == ["x" * 100_000]


def test_a_cycle_names_the_file(call, things, tmp_path):
    (tmp_path / "tree.csv").write_text("label,parent\na,b\nb,a\n")
    found = call(*things, "--hierarchy", "tree.csv")
    assert found.code == 1 and "tree.csv: The hierarchy has a cycle" in " ".join(found.err.split())


@pytest.mark.parametrize(
    "words, message",
    [
        (("--algorithm", "recall-tree"), "only for label trees that are trained on all rows at once"),
        (("--online",), "only for label trees that are trained on all rows at once"),
        (("--hierarchy", "missing.csv"), "missing.csv"),
    ],
)
def test_options_that_do_not_fit_are_refused(call, things, words, message):
    found = call(*things, "--label-text", "labels.csv", *words)
    assert found.code == 1 and message in " ".join(found.err.split())
