"""`manyclass predict`, `evaluate`, `compare`, `inspect`, `convert` and `tune`."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from manyclass import LabelTreeClassifier, OneAgainstAllClassifier, load_model


@pytest.fixture
def model(call, digits):
    assert call("train", "train.svm", "--features", 64, "--model", "m", "--epochs", 2).code == 0
    return load_model("m")


def test_predictions_are_those_of_the_model(call, digits, model):
    X = digits[0][700:900]
    labels, scores = model.predict_topk(X, 3)
    lines = [line.split("\t") for line in call("predict", "m", "test.svm", "--top-k", "3").out.splitlines()]
    assert [[int(cell) for cell in line[::2]] for line in lines] == labels.tolist()
    np.testing.assert_allclose([[float(cell) for cell in line[1::2]] for line in lines], scores, rtol=1e-4)
    lines = call("predict", "m", "test.svm", "--top-k", "3", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["labels"] for line in lines] == labels.tolist()
    told = call("predict", "m", "test.svm", "--top-k", "1", "--format", "svmlight")
    Path("answers.svm").write_text(told.out)
    assert load_svmlight_file("answers.svm", zero_based=True)[1].tolist() == labels[:, 0].tolist()


def test_probabilities_and_more_labels_than_there_are(call, digits, model):
    X = digits[0][700:900]
    told = call("predict", "m", "test.svm", "--top-k", "99", "--format", "jsonl", "--probabilities")
    chances = model.predict_proba(X)[:, np.argsort(model.classes_)]
    for line, row in zip(told.out.splitlines(), chances, strict=True):
        answer = json.loads(line)
        np.testing.assert_allclose(answer["scores"], row[answer["labels"]], rtol=1e-4)
        assert answer["scores"] == sorted(answer["scores"], reverse=True)


def test_labels_are_not_needed_to_predict(call, model):
    stripped = [line.split(" ", 1)[1] for line in Path("test.svm").read_text().splitlines(keepends=True)]
    Path("bare.svm").write_text("".join(stripped))
    assert call("predict", "m", "bare.svm").out == call("predict", "m", "test.svm").out


def test_evaluate_has_the_keys_of_diagnose_and_its_values(call, digits, model):
    X, y = digits[0][700:900], digits[1][700:900]
    told = json.loads(call("evaluate", "m", "test.svm", "--json").out)
    expected = model.diagnose(X, y)
    assert set(expected) <= set(told)
    for name, value in expected.items():
        assert told[name] == pytest.approx(value)
    assert told["precision@1"] == pytest.approx(expected["accuracy"])
    top = model.predict_topk(X, 5)[0]
    assert told["precision@5"] == pytest.approx(np.mean((top == y[:, None]).sum(axis=1) / 5))
    assert told["n_rows"] == 200
    assert "accuracy" in call("evaluate", "m", "test.svm").out


def test_evaluate_counts_labels_never_met_as_wrong(call, model):
    Path("odd.svm").write_text("77 1:1\n78 2:1\n")
    told = json.loads(call("evaluate", "m", "odd.svm", "--json").out)
    assert told["accuracy"] == told["recall"] == told["precision@5"] == 0
    assert "none of the labels" in call("evaluate", "m", "odd.svm").err


def test_compare_tells_which_is_better(call, digits, model):
    assert call("train", "train.svm", "--features", 64, "--model", "worse", "--epochs", 1, "-o", "beam=1").code == 0
    told = json.loads(call("compare", "m", "worse", "test.svm", "--json").out)
    X, y = digits[0][700:900], digits[1][700:900]
    right, also = model.predict(X) == y, load_model("worse").predict(X) == y
    assert told["only_first_right"] == (right & ~also).sum() and told["only_second_right"] == (also & ~right).sum()
    assert told["first"]["accuracy"] == pytest.approx(right.mean()) and 0 <= told["p_value"] <= 1
    assert "only in the first" in call("compare", "m", "worse", "test.svm").out
    assert "reads the rows twice" in call("compare", "m", "worse", "-").err


def test_inspect_tells_sizes_options_and_the_tree(call, model):
    told = json.loads(call("inspect", "m", "--depth", "2", "--json").out)
    assert told["n_classes"] == 10 and told["options"]["beam"] == 8 and told["bytes"] == os.path.getsize("m")
    assert told["branches"][0]["node"] == 0 and told["n_nodes"] >= len(told["branches"]) > 1
    assert told["reading"]["format"] == "svmlight" and told["training"]["finished"]
    text = call("inspect", "m", "--topics").out
    assert "node 0: 10 candidates: " in text and "beam=8" in text
    for name in ("tree.svg", "tree.png"):
        assert call("inspect", "m", "--depth", 3, "--picture", name).code == 0
        assert os.path.getsize(name) > 1000
    assert "must end in .png or .svg" in call("inspect", "m", "--picture", "tree.jpg").err


def test_inspect_hands_the_labels_of_leaves_up(call, digits):
    call("train", "train.svm", "--features", 64, "--model", "l", "--algorithm", "label-tree", "-o", "arity=4")
    branches = json.loads(call("inspect", "l", "--depth", "1", "--json").out)["branches"]
    assert branches[0]["n_labels"] == 10 == sum(branch["n_labels"] for branch in branches[1:])


def test_models_without_a_tree(call, digits):
    call("train", "train.svm", "--features", 64, "--model", "o", "--algorithm", "one-against-all", "--epochs", 1)
    assert json.loads(call("inspect", "o", "--json").out)["branches"] == []
    assert "no tree to draw" in call("inspect", "o", "--picture", "x.png").err


def test_convert_makes_a_slim_model_that_answers_the_same(call, model):
    assert call("convert", "m", "s", "--slim").code == 0
    assert os.path.getsize("s") < os.path.getsize("m")
    assert call("predict", "s", "test.svm").out == call("predict", "m", "test.svm").out
    assert "nothing to convert" in call("convert", "m", "x").err
    assert "another name" in call("convert", "m", "m", "--slim").err and not load_model("m")._slim
    assert "slim model" in call("train", "train.svm", "--start-from", "s", "--model", "x").err


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_convert_rounds_weights(call, model, precision):
    call("convert", "m", "s", "--slim")
    assert call("convert", "m", "r", "--slim", "--precision", precision).code == 0
    assert os.path.getsize("r") < os.path.getsize("s")
    told = [json.loads(call("inspect", name, "--json").out)["precision"] for name in ("m", "s", "r")]
    assert told == ["float32", "float32", precision]
    shown = call("inspect", "r").out
    assert "precision" in shown and precision in shown
    before, after = (json.loads(call("evaluate", name, "test.svm", "--json").out) for name in ("m", "r"))
    assert after["accuracy"] == pytest.approx(before["accuracy"], abs=0.02)
    assert call("convert", "r", "again", "--slim", "--precision", precision).code == 0
    assert Path("again").read_bytes() == Path("r").read_bytes()


def test_convert_refuses_a_precision_that_makes_no_sense(call, model):
    assert "float32, float16, int8" in call("convert", "m", "x", "--slim", "--precision", "int4").err
    assert "--slim" in call("convert", "m", "x", "--precision", "int8").err
    assert "for models" in call("convert", "train.svm", "x.svm", "--precision", "int8").err
    assert not Path("x").exists() and not Path("x.svm").exists()


def test_convert_makes_svmlight_of_data(call, digits):
    call("train", "train.svm", "--features", 64, "--model", "m", "--epochs", 1)
    assert call("convert", "train.svm", "copy.svm", "--features", 64).code == 0
    a = load_svmlight_file("train.svm", n_features=64)
    b = load_svmlight_file("copy.svm", n_features=64, zero_based=False)
    assert (a[0] != b[0]).nnz == 0 and np.array_equal(a[1], b[1])
    assert "must end in" in call("convert", "train.svm", "copy.txt").err
    Path("w.vw").write_text("1 5.0 |f a:1\n")
    assert "has no weights" in call("convert", "w.vw", "w.svm").err
    Path("e.xmc").write_text("2 3 2\n0 1:1\n \n")
    assert "without labels and features" in call("convert", "e.xmc", "e.svm").err
    assert call("convert", "train.svm", "copy.svm.gz", "--features", 64).code == 0
    assert gzip.decompress(Path("copy.svm.gz").read_bytes()) == Path("copy.svm").read_bytes()
    assert "no such folder" in call("convert", "train.svm", "nowhere/copy.svm").err
    Path("t.csv").write_text("words,kind\na b c,x\nd e f,two words\n")
    told = call("convert", "t.csv", "t.svm", "--label", "kind", "--text", "words")
    assert "cannot hold the label 'two words'" in told.err and not Path("t.svm").exists()


def test_a_format_with_other_features_is_refused(call, digits, model):
    Path("t.vw").write_text("1 |pixels a:1 b:2\n")
    told = call("predict", "m", "t.vw")
    assert told.code == 1 and "does not have the features of a model trained from svmlight" in told.err
    assert call("predict", "m", "t.vw", "--input-format", "vw").code == 0
    OneAgainstAllClassifier().fit(digits[0], digits[1]).save("p")
    Path("t.csv").write_text("y,a,b\n1,2,3\n")
    assert "saved from Python" in call("evaluate", "p", "t.csv", "--label", "y").err


def test_svmlight_answers_number_all_rows_alike(call):
    Path("d.svm").write_text("-1 1:1\n1 2:1\n5 3:1\n")
    assert call("train", "d.svm", "--features", "3", "--no-shuffle", "--model", "m", "--epochs", "9").code == 0
    lines = call("predict", "m", "d.svm", "--format", "svmlight", "--top-k", "1").out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]  # places in the model: one label is below 0


def test_names_in_brackets_are_no_markup(call):
    Path("t.csv").write_text("[/k],kind\na b c,x\nd e f,[/y]\n")
    assert call("train", "t.csv", "--label", "kind", "--text", "[/k]", "--model", "m").code == 0
    told = call("inspect", "m", "--topics")
    assert told.code == 0 and "[/k]" in told.out and "[/y]" in told.out


def test_fewer_classes_than_places(call):
    Path("d.svm").write_text("1 1:1\n2 2:1\n")
    assert call("train", "d.svm", "--features", "3", "--model", "m").code == 0
    told = json.loads(call("evaluate", "m", "d.svm", "--json").out)
    assert told["precision@1"] == 1 and told["precision@5"] == pytest.approx(0.2) and told["ndcg@5"] == 1


def test_labels_by_number(call):
    Path("t.csv").write_text("words,kind\na b c,x\nd e f,y\tz\n")
    assert call("train", "t.csv", "--label", "kind", "--text", "words", "--no-shuffle", "--model", "m").code == 0
    assert call("inspect", "m", "--labels").out == "0\tx\n1\ty\\tz\n"


@pytest.mark.parametrize("algorithm", ["lom-tree", "mlom-tree"])
def test_tune_knows_the_online_trees(call, digits, algorithm):
    pytest.importorskip("optuna")
    options = ("--features", 64, "--algorithm", algorithm, "--trials", 1, "--epochs", 1)
    told = json.loads(call("tune", "train.svm", *options, "--json").out)
    assert told["trials"] == 1 and 0 <= told["default_accuracy"] <= told["accuracy"] <= 1
    assert f"--algorithm {algorithm}" in told["command"]


def test_inspect_shows_the_classes_of_an_mlom_tree(call, digits):
    options = ("--features", 64, "--algorithm", "mlom-tree", "--option", "centre=median", "--epochs", 2)
    assert call("train", "train.svm", *options, "--model", "m").code == 0
    text = call("inspect", "m", "--depth", 1).out
    assert "node 0: 10 labels" in text and text.count(": 5 labels") == 2


def test_tune_prints_a_command_line_that_works(call, digits):
    pytest.importorskip("optuna")
    told = call("tune", "train.svm", "--features", 64, "--seconds", 30, "--trials", 2, "--epochs", 1)
    assert told.code == 0 and "the defaults" in told.err
    command = told.out.splitlines()[-1]
    assert command.startswith("manyclass train train.svm --features 64")
    assert call(*command.replace("MODEL", "tuned").split()[1:]).code == 0
    told = json.loads(call("tune", "train.svm", "--features", 64, "--trials", 1, "--epochs", 1, "--json").out)
    assert told["accuracy"] >= told["default_accuracy"]


def test_a_model_saved_from_python_reads_files_of_its_width(call, digits):
    X, y = digits
    LabelTreeClassifier(random_state=0).fit(X[:700], y[:700]).save("p")
    told = json.loads(call("evaluate", "p", "test.svm", "--json").out)
    assert told["accuracy"] == load_model("p").score(X[700:900], y[700:900])


@pytest.mark.parametrize("command", [("predict",), ("evaluate",), ("inspect",)])
def test_what_is_no_model_says_so(call, digits, command):
    words = ["train.svm"] if command != ("inspect",) else []
    told = call(*command, "train.svm", *words)
    assert told.code == 1 and "no model file" in told.err
    assert call(*command, "nothing", *words).code == 1


def test_a_closed_pipe_is_no_error(call, model):
    test = Path("test.svm").read_text()
    Path("test.svm").write_text(300 * test)  # more than a pipe holds
    program = f"{sys.executable} -m manyclass predict m test.svm"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program} | head -n 1"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout.splitlines()) == 1


def test_help_needs_no_compiler():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom manyclass.cli.main import app\n"
        "for words in ([], ['train'], ['predict'], ['tune']):\n"
        "    assert CliRunner().invoke(app, [*words, '--help']).exit_code == 0\n"
        "heavy = {'numba', 'sklearn', 'scipy', 'numpy', 'pyarrow'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
