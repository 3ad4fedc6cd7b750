"""`manyclass explain`, `classes` and `audit` on a small table of texts."""

import csv
import json
from itertools import product

import numpy as np
import pytest

from manyclass import load_model
from manyclass.cli import messages

_WORDS = {
    "fruit": ["apple", "pear", "plum", "ripe", "sweet"],
    "vehicle": ["car", "truck", "engine", "wheel", "fast"],
    "home": ["house", "roof", "garden", "door", "window"],
}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """train.csv: 75 texts of three labels; row 5 has a wrong one."""
    rows = [(f"the {a} and the {b}", label) for label, words in _WORDS.items() for a, b in product(words, words)]
    rows[4] = (rows[4][0], "home")
    with open(tmp_path / "train.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "topic"), *rows])


@pytest.fixture
def model(call, table):
    """topics.model, trained on train.csv."""
    result = call("train", "train.csv", "--label", "topic", "--text", "text", "--model", "topics.model")
    assert result.code == 0, result.err


def test_explain_prints_words(call, model):
    result = call("explain", "topics.model", "a ripe apple on the roof")
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0].startswith("fruit: score ")
    assert {"ripe", "apple", "roof"} <= {line.split()[0] for line in lines[3:] if line}
    labels, probabilities = load_model("topics.model").predict_topk(["a ripe apple on the roof"], probabilities=True)
    assert labels[0, 0] == "fruit" and lines[-1] == f"probability of fruit: {probabilities[0, 0]:.4f}"
    found = json.loads(call("explain", "topics.model", "a ripe apple on the roof", "--label", "home", "--json").out)
    assert found["label"] == "home" and found["runner_up"] == "fruit"
    assert found["probability"] == pytest.approx(probabilities[0, labels[0].tolist().index("home")])
    assert {one["name"] for one in found["contributions"]} == {"ripe", "apple", "roof", "the"}
    parts = [one["contribution"] for one in found["contributions"]] + list(found["terms"].values())
    assert sum(parts) + found["other_features"] == pytest.approx(found["score"])


def test_explain_without_words(call, model, tmp_path):
    assert call("explain", "topics.model", "").code == 0
    (tmp_path / "numbers.csv").write_text("a,b,y\n" + "".join(f"{i % 5},{i % 3},c{i % 5}\n" for i in range(60)))
    assert call("train", "numbers.csv", "--label", "y", "--model", "numbers.model").code == 0
    result = call("explain", "numbers.model", '{"a": 2, "b": 1}')
    assert result.code == 0 and "a" in result.out, result.err
    assert "JSON object of their cells (Expecting" in call("explain", "numbers.model", '{"a": 2').err
    result = call("explain", "numbers.model", "[" * 60_000)
    assert result.code == 1 and "JSON object of their cells (" in result.err


def test_explain_draws_a_picture(call, model, tmp_path):
    assert call("explain", "topics.model", "a fast car", "--picture", "why.png").code == 0
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


def test_a_text_in_python(call, model, tmp_path):
    clf = load_model(tmp_path / "topics.model")
    text = "a ripe apple"
    assert clf.explain(text).score == pytest.approx(clf.predict_topk([text], k=1)[1][0, 0], abs=1e-5)
    assert clf.explain([text]) == clf.explain({"text": text})
    for missing in ([None], [None, "a ripe apple"], [None, None]):
        assert clf.predict(missing).tolist() == clf.predict([text or "" for text in missing]).tolist()
    with pytest.raises(ValueError, match="X has no cells in row 2"):
        clf.predict([{"text": "a"}, None])


def test_explain_needs_a_table(call, digits):
    assert call("train", "train.svm", "--model", "digits.model", "--epochs", 1).code == 0
    result = call("explain", "digits.model", "a text")
    assert result.code == 1 and "was not trained on a table with text" in result.err


def test_several_columns(call, tmp_path):
    rng = np.random.default_rng(0)
    with open(tmp_path / "shop.csv", "w", newline="") as file:
        rows = [("a red thing", "small", 2.0, "x"), ("a blue thing", "large", 30.0, "y")] * 20
        cells = [(text, size, round(price + rng.random(), 2), label) for text, size, price, label in rows]
        csv.writer(file).writerows([("name", "size", "price", "kind"), *cells])
    columns = ["--text", "name", "--categorical", "size", "--numeric", "price"]
    assert call("train", "shop.csv", "--label", "kind", *columns, "--model", "shop.model").code == 0
    cells = json.dumps({"name": "a red thing", "size": "small", "price": 2.5})
    found = json.loads(call("explain", "shop.model", cells, "--json").out)
    names = {one["name"] for one in found["contributions"]}
    assert found["label"] == "x" and {"red", "size=small"} <= names
    assert any(name.startswith("price near ") for name in names)
    result = call("explain", "shop.model", "a red thing")
    assert result.code == 1 and "name, price, size" in result.err and "JSON" in result.err


def test_classes_changes_a_file(call, model, tmp_path):
    before = (tmp_path / "topics.model").read_bytes()
    changes = ["--rename", "home=building", "--merge", "fruit=vehicle"]
    result = call("classes", "topics.model", *changes, "--output", "b.model")
    assert result.code == 0 and "2 classes" in result.out
    assert (tmp_path / "topics.model").read_bytes() == before
    clf = load_model(tmp_path / "b.model")
    assert clf.predict(["a ripe apple", "the roof"]).tolist() == ["vehicle", "building"]
    assert call("classes", "b.model", "--remove", "vehicle", "--add", "animal").code == 0
    assert load_model(tmp_path / "b.model").predict(["a ripe apple"]).tolist() == ["building"]
    predicted = call("predict", "b.model", "train.csv")  # five labels, but only two classes are left
    assert predicted.code == 0 and predicted.out.splitlines()[0].count("predicted") == 2
    assert "vehicle" not in predicted.out and "building" in predicted.out


def test_classes_says_that_sets_have_ended(call, model):
    clf = load_model("topics.model")
    with open("train.csv", newline="") as file:
        texts, labels = zip(*list(csv.reader(file))[1:], strict=True)
    clf.conformal(list(texts), list(labels), coverage=0.7).save("topics.model")
    assert "predict --set" not in call("classes", "topics.model", "--rename", "home=building").err
    assert "`predict --set` no longer holds" in call("classes", "topics.model", "--remove", "building").err


def test_new_names_of_several_labels_can_be_renamed_in_the_same_command(call, tmp_path):
    rows = [f"{words},{labels}" for words, labels in (("red apple", "fruit;red"), ("red car", "vehicle;red")) * 4]
    (tmp_path / "several.csv").write_text("text,labels\n" + "\n".join(rows) + "\n")
    options = ("--label", "labels", "--label-separator", ";", "--model", "several.model")
    assert call("train", "several.csv", *options).code == 0
    result = call("classes", "several.model", "--add", "green", "--rename", "red=scarlet", "--merge", "green=scarlet")
    assert result.code == 0, result.err
    predicted = call("predict", "several.model", "several.csv", "--top-k", 2)
    assert "scarlet" in predicted.out and "green" not in predicted.out
    explained = call("explain", "several.model", '{"text": "red apple"}', "--label", "scarlet")
    assert "probability of scarlet: " in explained.out, explained.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to do"),
        (["--rename", "home"], "write OLD=NEW"),
        (["--rename", "horse=home"], "'horse' is not a class"),
        (["--rename", "home=building", "--remove", "horse"], "'horse' is not a class"),
    ],
)
def test_an_error_leaves_the_file(call, model, tmp_path, options, message):
    before = (tmp_path / "topics.model").read_bytes()
    result = call("classes", "topics.model", *options)
    assert result.code == 1 and message in result.err
    assert (tmp_path / "topics.model").read_bytes() == before


def test_audit_finds_the_wrong_label(call, table, tmp_path):
    result = call("audit", "train.csv", "--label", "topic", "--output", "issues.csv")
    assert result.code == 0, result.err
    assert "5  home -> fruit" in result.out
    with open(tmp_path / "issues.csv", newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["row"], first["given"], first["suggested"]) == ("5", "home", "fruit")
    found = json.loads(call("audit", "train.csv", "--label", "topic", "--json", "--top", 1).out)
    assert found["issues"][0]["row"] == 5 and found["n_rows"] == 75
    assert found["pairs"][0]["given"] == "home"


def test_json_on_a_terminal_has_no_control_characters(call, table, tmp_path, monkeypatch):
    text = (tmp_path / "train.csv").read_text().replace("home", "ho\x9bme")
    (tmp_path / "a.csv").write_text(text)
    assert call("train", "a.csv", "--label", "topic", "--text", "text", "--model", "a.model").code == 0
    monkeypatch.setattr(messages, "is_terminal", lambda file: True)
    audited = call("audit", "a.csv", "--label", "topic", "--json").out
    explained = call("explain", "a.model", "house", "--json").out
    assert json.loads(audited)["issues"][0]["given"] == json.loads(explained)["label"] == "ho\x9bme"
    assert "\x9b" not in audited + explained


def test_audit_bad_options(call, table):
    result = call("audit", "train.csv", "--label", "topic", "--output", "issues.txt")
    assert result.code == 1 and ".csv or .tsv" in result.err
    result = call("audit", "train.csv", "--label", "topic", "--label-separator", ";")
    assert result.code == 1 and "one label per row" in result.err
