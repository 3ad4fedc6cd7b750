"""`manyclass predict`, `evaluate`, `compare`, `inspect` and `convert`."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from manyclass import OneAgainstAllClassifier, RecallTreeClassifier, load_model
from manyclass.cli import messages
from manyclass.cli.files import only_writer

TRAIN = ("train", "train.svm", "--features", 64, "--algorithm", "recall-tree")


@pytest.fixture
def model(call, digits):
    assert call(*TRAIN, "--model", "m", "--epochs", 2).code == 0
    return load_model("m")


def test_predict_prints_the_predictions_of_the_model(call, digits, model):
    X = digits[0][700:900]
    labels, scores = model.predict_topk(X, 3)
    header, *lines = [line.split("\t") for line in call("predict", "m", "test.svm", "--top-k", "3").out.splitlines()]
    assert header == ["predicted_1", "score_1", "predicted_2", "score_2", "predicted_3", "score_3"]
    assert [[int(cell) for cell in line[::2]] for line in lines] == labels.tolist()
    np.testing.assert_allclose([[float(cell) for cell in line[1::2]] for line in lines], scores, rtol=1e-4)
    lines = call("predict", "m", "test.svm", "--top-k", "3", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["labels"] for line in lines] == labels.tolist()
    Path("predicted.svm").write_text(call("predict", "m", "test.svm", "--top-k", "1", "--format", "svmlight").out)
    assert load_svmlight_file("predicted.svm", zero_based=True)[1].tolist() == labels[:, 0].tolist()


def test_predict_as_svmlight_replaces_negative_labels_by_positions(call):
    Path("d.svm").write_text("-1 1:1\n1 2:1\n5 3:1\n")
    assert call("train", "d.svm", "--features", "3", "--no-shuffle", "--model", "m", "--epochs", "9").code == 0
    lines = call("predict", "m", "d.svm", "--format", "svmlight", "--top-k", "1").out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]


def test_predict_prints_probabilities_of_all_candidates(call, digits, model):
    result = call("predict", "m", "test.svm", "--top-k", "99", "--format", "jsonl", "--probabilities")
    expected = model.predict_proba(digits[0][700:900])[:, np.argsort(model.classes_)]
    for line, row in zip(result.out.splitlines(), expected, strict=True):
        predicted = json.loads(line)
        np.testing.assert_allclose(predicted["scores"], row[predicted["labels"]], rtol=1e-4)
        assert predicted["scores"] == sorted(predicted["scores"], reverse=True)


def test_predict_needs_no_labels(call, model):
    stripped = [line.split(" ", 1)[1] for line in Path("test.svm").read_text().splitlines(keepends=True)]
    Path("bare.svm").write_text("".join(stripped))
    assert call("predict", "m", "bare.svm").out == call("predict", "m", "test.svm").out


def test_predict_ends_quietly_when_the_pipe_is_closed(call, model):
    test = Path("test.svm").read_text()
    Path("test.svm").write_text(30 * test)  # the predictions are more than a pipe can hold
    program = f"{sys.executable} -m manyclass predict m test.svm"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program} | head -n 1"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("predicted_1\tscore_1") and done.stdout.count("\n") == 1
    assert "Error" not in done.stderr and "Exception" not in done.stderr


def test_evaluate_agrees_with_diagnose(call, digits, model):
    X, y = digits[0][700:900], digits[1][700:900]
    result = json.loads(call("evaluate", "m", "test.svm", "--json").out)
    expected = model.diagnose(X, y)
    expected["candidate_recall"] = expected.pop("recall")
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    assert result["precision@1"] == pytest.approx(expected["accuracy"])
    top = model.predict_topk(X, 5)[0]
    assert result["precision@5"] == pytest.approx(np.mean((top == y[:, None]).sum(axis=1) / 5))
    assert result["n_rows"] == 200
    assert "accuracy" in call("evaluate", "m", "test.svm").out


def test_evaluate_counts_unknown_labels_as_errors(call, model):
    Path("odd.svm").write_text("77 1:1\n78 2:1\n")
    result = json.loads(call("evaluate", "m", "odd.svm", "--json").out)
    assert result["accuracy"] == result["candidate_recall"] == result["precision@5"] == 0
    assert "knows none of the labels" in call("evaluate", "m", "odd.svm").err


def test_convert_waits_for_no_other_writer(call, model):
    with only_writer("slim"):
        result = call("convert", "m", "slim", "--slim")
        assert (
            result.code == 1 and "slim is being written by another process" in result.err and not Path("slim").exists()
        )
    assert call("convert", "m", "slim", "--slim").code == 0


def test_evaluate_with_fewer_classes_than_k(call):
    Path("d.svm").write_text("1 1:1\n2 2:1\n")
    assert call("train", "d.svm", "--features", "3", "--model", "m").code == 0
    result = json.loads(call("evaluate", "m", "d.svm", "--json").out)
    assert result["precision@1"] == 1 and result["precision@5"] == pytest.approx(0.2) and result["ndcg@5"] == 1


def test_evaluate_reads_files_for_a_model_saved_from_python(call, digits):
    X, y = digits
    OneAgainstAllClassifier(n_epochs=1, random_state=0).fit(X[:700], y[:700]).save("p")
    result = json.loads(call("evaluate", "p", "test.svm", "--json").out)
    assert result["accuracy"] == load_model("p").score(X[700:900], y[700:900])


def test_a_model_saved_from_python_does_not_know_the_first_index(call, digits):
    X, y = digits
    assert not X[:, 0].any()  # so that a file of indices from 0 has no index 0
    model = OneAgainstAllClassifier(n_epochs=1, random_state=0).fit(X[:700], y[:700])
    model.save("p")
    dump_svmlight_file(X[700:900], y[700:900], "zero.svm", zero_based=True)
    warning = "none of the first rows has an index 0"
    for words in (("zero.svm", "--index-base", 0), ("test.svm", "--index-base", 1), ("test.svm",)):
        result = call("evaluate", "p", *words, "--json")
        assert json.loads(result.out)["accuracy"] == model.score(X[700:900], y[700:900])
        assert (warning in result.err) == (len(words) == 1)
    result = call("predict", "p", "zero.svm")
    assert f"zero.svm: {warning}" in result.err and "--index-base 0" in result.err
    X[700:, 0] = 1
    dump_svmlight_file(X[700:900], y[700:900], "zero.svm", zero_based=True)
    result = call("evaluate", "p", "zero.svm", "--json")
    assert json.loads(result.out)["accuracy"] == model.score(X[700:900], y[700:900]) and warning not in result.err


def test_features_that_a_model_does_not_know_are_ignored_and_counted(call, digits):
    X, y = digits
    lines = Path("test.svm").read_text().splitlines()
    Path("more.svm").write_text("".join(f"{line} 65:1000 9999:1000\n" for line in lines))
    warning = "more.svm: 400 values have indices beyond the 64 features of the model; they were ignored."
    assert call("train", "train.svm", "--algorithm", "recall-tree", "--model", "counted", "--epochs", 1).code == 0
    OneAgainstAllClassifier(n_epochs=1, random_state=0).fit(X[:700], y[:700]).save("python")
    for name in ("counted", "python"):
        expected = call("predict", name, "test.svm", "--index-base", 1)
        found = call("predict", name, "more.svm", "--index-base", 1)
        assert found.out == expected.out and warning in found.err and warning not in expected.err
        result = call("evaluate", name, "more.svm", "--index-base", 1, "--json")
        assert json.loads(result.out)["warnings"] == [warning] and f"warning: {warning}" in result.err
    result = call("train", "more.svm", "--start-from", "counted", "--model", "again", "--epochs", 1)
    assert result.code == 0 and warning in result.err
    for words in (("--features", 64), ("--feature-bits", 6)):  # hashed in training and afterwards
        assert call("train", "more.svm", *words, "--model", "hashed", "--epochs", 1).code == 0
        assert load_model("hashed").n_features_in_ == 64
        found = call("predict", "hashed", "more.svm")
        assert "ignored" not in found.err and found.out != call("predict", "hashed", "test.svm").out
        assert json.loads(call("evaluate", "hashed", "more.svm", "--json").out)["warnings"] == []


def test_compare_counts_correct_rows_and_tests_the_difference(call, digits, model):
    assert call(*TRAIN, "--model", "worse", "--epochs", 1, "-o", "beam=1").code == 0
    result = json.loads(call("compare", "m", "worse", "test.svm", "--json").out)
    X, y = digits[0][700:900], digits[1][700:900]
    first, second = model.predict(X) == y, load_model("worse").predict(X) == y
    assert result["only_first_right"] == (first & ~second).sum()
    assert result["only_second_right"] == (second & ~first).sum()
    assert result["first"]["accuracy"] == pytest.approx(first.mean()) and 0 <= result["p_value"] <= 1
    assert "McNemar" in call("compare", "m", "worse", "test.svm").out
    assert "reads the data twice" in call("compare", "m", "worse", "-").err


def test_compare_refuses_to_skip_different_lines(call, tmp_path):
    rows = [f"{'xy'[i % 2]},{i % 2},{i % 2 + 1}" for i in range(40)]
    (tmp_path / "good.csv").write_text("\n".join(["label,a,b", *rows]))
    rows[3], rows[8] = "y,1e999,2", "x,0,1e999"
    (tmp_path / "bad.csv").write_text("\n".join(["label,a,b", *rows]))
    rows[8] = "x,0,1"
    (tmp_path / "one.csv").write_text("\n".join(["label,a,b", *rows]))
    for name in "ab":
        assert call("train", "good.csv", "--label", "label", "--numeric", name, "--model", f"{name}.model").code == 0
    for name in ("bad.csv", "one.csv"):  # as many lines of each model, or one more of the first
        found = call("compare", "a.model", "b.model", name, "--skip-bad-lines")
        assert found.code == 1 and f"{name}: the models use different columns, so they skip different bad" in found.err
    assert call("compare", "a.model", "a.model", "bad.csv", "--skip-bad-lines").code == 0


def test_inspect_shows_sizes_options_and_the_tree(call, model):
    result = json.loads(call("inspect", "m", "--depth", "2", "--json").out)
    assert result["n_classes"] == 10 and result["options"]["beam"] == 8 and result["bytes"] == os.path.getsize("m")
    assert result["branches"][0]["node"] == 0 and result["n_nodes"] >= len(result["branches"]) > 1
    assert result["reading"]["format"] == "svmlight" and result["training"]["finished"]
    text = call("inspect", "m", "--topics").out
    assert "node 0: 10 candidates: " in text and "beam=8" in text
    assert not set("[]{}'") & set(text) and "progressive error" in text
    assert "rows                  700" in text and "format      svmlight" in text and "not finished" not in text
    for name in ("tree.svg", "tree.png"):
        assert call("inspect", "m", "--depth", 3, "--picture", name).code == 0
        assert os.path.getsize(name) > 1000
    assert "must end in .png or .svg" in call("inspect", "m", "--picture", "tree.jpg").err


def test_inspect_collects_the_labels_of_leaves(call, digits):
    call("train", "train.svm", "--features", 64, "--model", "l", "--algorithm", "label-tree", "-o", "arity=4")
    branches = json.loads(call("inspect", "l", "--depth", "1", "--json").out)["branches"]
    assert branches[0]["n_labels"] == 10 == sum(branch["n_labels"] for branch in branches[1:])


@pytest.mark.slow  # compiles the MLOM tree
def test_inspect_shows_the_classes_of_an_mlom_tree(call, digits):
    options = ("--features", 64, "--algorithm", "mlom-tree", "--option", "centre=median", "--epochs", 2)
    assert call("train", "train.svm", *options, "--model", "m").code == 0
    text = call("inspect", "m", "--depth", 1).out
    assert "node 0: 10 labels" in text and text.count(": 5 labels") == 2


def test_inspect_a_model_without_a_tree(call, digits):
    call("train", "train.svm", "--features", 64, "--model", "o", "--algorithm", "one-against-all", "--epochs", 1)
    assert json.loads(call("inspect", "o", "--json").out)["branches"] == []
    assert "no tree to draw" in call("inspect", "o", "--picture", "x.png").err


NASTY = "\x1b[2J=red\x9b\u202e"


@pytest.fixture
def nasty_model(call):
    """A model whose labels would clear the screen, and run as formulas."""
    X = np.eye(4, dtype=np.float32)
    clf = RecallTreeClassifier(random_state=0, n_epochs=9).fit(X, [NASTY, "=1+1", "-2", "good\tname"])
    clf.save("m")
    Path("d.svm").write_text("0 1:1\n0 2:1\n0 3:1\n0 4:1\n")


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "m", "d.svm"),
        ("predict", "m", "d.svm", "--format", "jsonl"),
        ("inspect", "m", "--labels"),
        ("inspect", "m", "--topics"),
    ],
)
def test_terminals_get_no_control_characters(call, nasty_model, words, monkeypatch):
    raw = call(*words).out
    assert "\x9b" in raw  # files get the labels as they are
    monkeypatch.setattr(messages, "is_terminal", lambda file: True)
    shown = call(*words).out
    assert "\\u001b" in shown and "\\u009b" in shown and "\\u202e" in shown
    assert all(c.isprintable() or c in "\n\t" for c in shown)


def test_labels_that_look_like_formulas(call, nasty_model):
    def labels(*words):
        lines = io.StringIO(call("predict", "m", "d.svm", "--top-k", 1, *words).out, newline="")
        return {cells[0] for cells in csv.reader(lines, delimiter="\t")}

    assert {"=1+1", "-2"} <= labels()
    assert {"'=1+1", "'-2", "good\tname"} <= labels("--spreadsheet-safe")
    result = call("predict", "m", "d.svm", "--format", "jsonl", "--spreadsheet-safe")
    assert result.code == 1 and "--format tsv and csv only" in result.err


def test_inspect_lists_labels_and_prints_brackets(call):
    Path("t.csv").write_text("[/k],kind\na b c,[/x]\nd e f,y\tz\ng h i,$x_^$\n")
    assert call("train", "t.csv", "--label", "kind", "--text", "[/k]", "--no-shuffle", "--model", "m").code == 0
    assert call("inspect", "m", "--labels").out == "0\t$x_^$\n1\t[/x]\n2\ty\\tz\n"
    result = call("inspect", "m", "--topics")
    assert result.code == 0 and "[/k]" in result.out and "[/x]" in result.out
    assert call("inspect", "m", "--picture", "tree.svg").code == 0


@pytest.mark.parametrize("command", ["predict", "evaluate", "inspect"])
def test_a_file_that_is_not_a_model_is_reported(call, digits, command):
    words = [] if command == "inspect" else ["train.svm"]
    result = call(command, "train.svm", *words)
    assert result.code == 1 and result.err.startswith("manyclass: error: train.svm: ")
    assert call(command, "nothing", *words).code == 1


def test_a_format_with_other_features_is_rejected(call, digits, model):
    Path("t.vw").write_text("1 |pixels a:1 b:2\n")
    result = call("predict", "m", "t.vw")
    assert result.code == 1 and "t.vw is read as vw, but the model was trained on svmlight: vw files" in result.err
    assert call("predict", "m", "t.vw", "--input-format", "vw").code == 0
    OneAgainstAllClassifier(n_epochs=1).fit(digits[0], digits[1]).save("p")
    Path("t.csv").write_text("y,a,b\n1,2,3\n")
    assert "trained on arrays in Python" in call("evaluate", "p", "t.csv", "--label", "y").err


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_errors_of_another_format_name_no_options_that_were_not_given(call, digits, model, command):
    Path("t.csv").write_text("y,a,b\n" + "".join(f"c{i % 3},word{i % 3},{i}\n" for i in range(30)))
    Path("t.xmc").write_text("2 64 10\n1 3:1\n2 4:1\n")
    assert call("train", "t.csv", "--label", "y", "--text", "a", "--numeric", "b", "--model", "c").code == 0
    for name, file_format in (("test.svm", "svmlight"), ("t.xmc", "xmc")):
        result = call(command, "c", name)
        what = f"{name} is read as {file_format}, but the model was trained on csv with the columns 'a', 'b': "
        assert result.code == 1 and what in result.err
    result = call(command, "m", "t.csv")
    assert result.code == 1 and "t.csv is read as csv, but the model was trained on svmlight: " in result.err
    result = call(command, "m", "t.xmc")
    assert result.code == 1 and "t.xmc is an xmc file, which has lists of integer labels, but" in result.err
    assert "label_kind" not in result.err


def test_convert_writes_a_slim_model_with_the_same_predictions(call, model):
    assert call("convert", "m", "s", "--slim").code == 0
    assert os.path.getsize("s") < os.path.getsize("m")
    assert call("predict", "s", "test.svm").out == call("predict", "m", "test.svm").out
    assert "nothing to convert" in call("convert", "m", "x").err
    assert "nothing to convert" in call("convert", "m", "x", "--precision", "int8").err
    assert "choose another name" in call("convert", "m", "m", "--slim").err and not load_model("m")._slim
    assert "is the name of a data file" in call("convert", "m", "new.svm", "--slim").err
    Path("notes").write_text("important")
    assert "is not a model and would be overwritten" in call("convert", "m", "notes", "--slim").err
    assert "slim model" in call("train", "train.svm", "--start-from", "s", "--model", "x").err
    assert not Path("x").exists()


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_convert_rounds_weights(call, model, precision):
    call("convert", "m", "s", "--slim")
    assert call("convert", "m", "r", "--slim", "--precision", precision).code == 0
    assert os.path.getsize("r") < os.path.getsize("s")
    found = [json.loads(call("inspect", name, "--json").out)["precision"] for name in ("m", "s", "r")]
    assert found == ["float32", "float32", precision]
    before, after = (json.loads(call("evaluate", name, "test.svm", "--json").out) for name in ("m", "r"))
    assert after["accuracy"] == pytest.approx(before["accuracy"], abs=0.02)
    assert call("convert", "r", "again", "--slim", "--precision", precision).code == 0
    assert Path("again").read_bytes() == Path("r").read_bytes()


def test_convert_writes_svmlight(call, digits):
    assert call("convert", "train.svm", "copy.svm", "--features", 64).code == 0
    a = load_svmlight_file("train.svm", n_features=64)
    b = load_svmlight_file("copy.svm", n_features=64, zero_based=False)
    assert (a[0] != b[0]).nnz == 0 and np.array_equal(a[1], b[1])
    assert call("convert", "train.svm", "copy.svm.gz", "--features", 64).code == 0
    assert gzip.decompress(Path("copy.svm.gz").read_bytes()) == Path("copy.svm").read_bytes()
    assert sorted(os.listdir()) == ["copy.svm", "copy.svm.gz", "test.svm", "train.svm"]


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "m", "d.csv", "--output"),
        ("evaluate", "m", "d.csv", "--report"),
        ("evaluate", "m", "d.csv", "--picture"),
        ("evaluate", "m", "d.csv", "--risk-coverage"),
        ("compare", "m", "other", "d.csv", "--report"),
        ("compare", "m", "other", "d.csv", "--picture"),
        ("inspect", "m", "--picture"),
        ("explain", "m", "red paint", "--picture"),
        ("audit", "d.csv", "--label", "kind", "--output"),
        ("convert", "d.csv"),
        ("convert", "m", "--slim"),
    ],
)
def test_inputs_are_never_replaced(call, words):
    for name in {"m", "other", "d.csv"} & set(words):
        Path(name).write_text("precious")
        Path(f"{name}.svg").symlink_to(name)
        assert f"{name}.svg would replace {name}: choose another name" in call(*words, f"{name}.svg").err
        assert Path(name).read_text() == "precious"


def test_convert_rejects_what_svmlight_cannot_represent(call, digits):
    assert "must end in" in call("convert", "train.svm", "copy.txt").err
    assert "no such folder" in call("convert", "train.svm", "nowhere/copy.svm").err
    assert "apply to models only" in call("convert", "train.svm", "x.svm", "--precision", "int8").err
    Path("w.vw").write_text("1 5.0 |f a:1\n")
    assert "no row weights" in call("convert", "w.vw", "x.svm").err
    Path("e.xmc").write_text("2 3 2\n0 1:1\n \n")
    assert "without labels and features" in call("convert", "e.xmc", "x.svm").err
    Path("t.csv").write_text("words,kind\na b c,x\nd e f,two words\n")
    result = call("convert", "t.csv", "x.svm", "--label", "kind", "--text", "words")
    assert "cannot represent the label 'two words'" in result.err
    assert not [name for name in os.listdir() if name.startswith("x.svm")]


@pytest.mark.parametrize("command", [["inspect", "m"], ["predict", "m", "test.svm"]])
def test_closed_output_is_an_error(command, model):
    program = " ".join([sys.executable, "-m", "manyclass", *command])
    done = subprocess.run(
        ["bash", "-c", f"{program} >&-"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 1 and "standard output is closed" in done.stderr and "Traceback" not in done.stderr


def test_labels_are_utf_8_where_the_locale_has_only_ascii(call):
    fitted = RecallTreeClassifier(n_epochs=1, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], ["café", "thé"])
    fitted.save("words")
    ascii_only = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "manyclass", "inspect", "words", "--labels"], capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **ascii_only},
    )  # fmt: skip
    assert "café" in done.stdout.decode()
