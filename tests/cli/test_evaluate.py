"""`manyclass evaluate` and `compare`: numbers against scikit-learn, unknown labels, reports."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import confusion_matrix, f1_score, recall_score

from manyclass import load_model
from manyclass.cli import rows
from manyclass.cli.evaluation import Evaluation
from manyclass.io import Source
from manyclass.metrics import ece_at_k, propensities, psp_at_k, risk_coverage
from manyclass.trained import open_model

TRAIN = ("train", "train.svm", "--features", 64, "--algorithm", "recall-tree")


@pytest.fixture
def model(call, digits):
    assert call(*TRAIN, "--model", "m", "--epochs", 1, "-o", "beam=1").code == 0
    return load_model("m")


@pytest.fixture
def tags(call):
    """Write train.csv and test.csv with several labels per row, train on them, and return the labels of test.csv."""
    rng = np.random.default_rng(0)
    words, names = [f"word{i}" for i in range(12)], [f"label {i}" for i in range(12)]
    lines = []
    for _ in range(400):
        true = rng.choice(12, rng.integers(1, 4), replace=False, p=np.arange(1, 13) / 78)
        text = " ".join(words[i if rng.random() < 0.8 else rng.integers(12)] for i in true for _ in range(3))
        lines.append((text, [names[i] for i in true]))
    for name, part in (("train", lines[:300]), ("test", lines[300:])):
        rows = [f"{text},{'|'.join(labels)}\n" for text, labels in part]
        Path(f"{name}.csv").write_text("text,tags\n" + "".join(rows))
    words = ("train", "train.csv", "--label", "tags", "--text", "text", "--label-separator", "|")
    assert call(*words, "--model", "m", "--feature-bits", 10).code == 0
    return [labels for _, labels in lines[300:]]


def evaluated(call, *words):
    result = call("evaluate", *words, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_metrics_of_one_label_per_row(call, digits, model):
    X, y = digits[0][700:900], digits[1][700:900]
    predicted, result = model.predict(X), evaluated(call, "m", "test.svm")
    assert result["macro_f1"] == pytest.approx(f1_score(y, predicted, average="macro"))
    top, _ = model.predict_topk(X, 3)
    assert result["top_3_accuracy"] == pytest.approx(np.mean((top == y[:, None]).any(axis=1)))
    worst = result["worst_classes"][0]
    f1 = f1_score(y, predicted, average=None, labels=range(10))
    assert worst["f1"] == pytest.approx(f1.min()) and f1[worst["label"]] == f1.min()
    assert worst["rows"] == (y == worst["label"]).sum()
    matrix = confusion_matrix(y, predicted, labels=range(10))
    np.fill_diagonal(matrix, 0)
    most = result["most_confused"][0]
    assert most["rows"] == matrix.max() == matrix[most["true"], most["predicted"]]
    assert matrix[worst["label"]].max() == matrix[worst["label"], worst["most_confused_with"]]
    probability = model.predict_proba(X).max(axis=1)
    bins = np.minimum((probability * 10).astype(int), 9)
    assert result["reliability"]["rows"] == np.bincount(bins, minlength=10).tolist()
    text = call("evaluate", "m", "test.svm").out
    for words in ("top-3 accuracy", "macro-F1", "candidate recall", "Worst classes", "Most confused", "Work per row"):
        assert words in text


def test_accuracy_by_frequency_counts_training_rows(call, digits, model):
    X, y = digits[0][700:900], digits[1][700:900]
    learned = np.bincount(digits[1][:700])
    result = evaluated(call, "m", "test.svm")
    assert result["frequency_counted_in"] == "training rows" and learned.min() < 70 < learned.max() < 100
    assert [(g["from"], g["below"], g["labels"], g["true"]) for g in result["by_frequency"]] == [(10, 100, 10, 200)]
    assert result["by_frequency"][0]["recall"] == pytest.approx(np.mean(model.predict(X) == y))
    model.save("python")  # a model without counts
    model._extra.pop("labels")
    model.save("python")
    assert evaluated(call, "python", "test.svm")["frequency_counted_in"] == "evaluated rows"


def test_counts_of_training_rows_survive_resuming_and_further_training(call, digits):
    words = (*TRAIN, "--epochs", 2, "--model")
    assert call(*words, "m", "--checkpoint-every", 300).code == 0
    counts = load_model("m")._extra["labels"]
    assert counts["n_rows"] == 700 and sum(counts["counts"]) == 700
    assert call("train", "test.svm", "--start-from", "m", "--model", "more", "--epochs", 2).code == 0
    assert load_model("more")._extra["labels"]["n_rows"] == 900
    assert call(*words, "fitted", "--in-memory", "--algorithm", "label-tree").code == 0
    fitted = load_model("fitted")
    assert dict(zip(fitted.classes_.tolist(), fitted._extra["labels"]["counts"], strict=True)) == {
        label: int(count) for label, count in enumerate(np.bincount(digits[1][:700]))
    }


@pytest.mark.parametrize("n_epochs", [1, 2])
@pytest.mark.parametrize("separator", [(), ("--label-separator", "|")])
def test_labels_that_only_held_out_rows_have_are_counted(call, monkeypatch, n_epochs, separator):
    monkeypatch.setattr(rows, "WINDOW", 64)
    monkeypatch.setattr(rows, "_HELD_OUT_SHARE", 0.2)
    Path("train.csv").write_text("text,kind\n" + "".join(f"word{i} text,label {i}\n" for i in range(200)))
    words = ("train", "train.csv", "--label", "kind", "--text", "text", *separator, "--feature-bits", 10, "--online")
    result = call(*words, "--epochs", n_epochs, "--model", "m", "--test", "train.csv", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["test"]["by_frequency"][0]["labels"] == 200
    for _ in range(2):
        assert load_model("m")._extra["labels"] == {"n_rows": 200, "counts": [1] * 200}
        assert call(*words, "--epochs", n_epochs + 1, "--model", "m", "--resume").code == 0


@pytest.mark.parametrize(
    "record",
    [
        [],
        {"n_rows": 700},
        {"n_rows": 700, "counts": [1] * 11},
        {"n_rows": 700, "counts": [-1] * 10},
        {"n_rows": 700, "counts": [701]},
        {"n_rows": 2**70, "counts": [1]},
        {"n_rows": "700", "counts": []},
        {"n_rows": 700, "counts": [1.5]},
        {"n_rows": 700, "counts": "1234"},
    ],
)
def test_wrong_counts_in_a_model_are_refused(call, digits, model, record):
    model._extra["labels"] = record
    model.save("wrong")
    result = call("evaluate", "wrong", "test.svm")
    assert result.code == 1 and "the description of the training data is invalid" in result.err


def test_metrics_of_several_labels_per_row(call, tags):
    result = evaluated(call, "m", "test.csv")
    model = load_model("m")
    names = model._names
    truth = np.array([[name in labels for name in names] for labels in tags])
    lines = call("predict", "m", "test.csv", "--top-k", 12, "--probabilities", "--format", "jsonl").out.splitlines()
    probabilities = np.zeros(truth.shape)
    for row, line in enumerate(map(json.loads, lines)):
        probabilities[row, [names.index(label) for label in line["labels"]]] = line["scores"]
    predicted = probabilities > model.threshold_
    assert result["threshold"] == model.threshold_
    assert result["micro_f1"] == pytest.approx(f1_score(truth, predicted, average="micro"))
    used = truth.any(axis=0) | predicted.any(axis=0)
    expected = f1_score(truth[:, used], predicted[:, used], average="macro", zero_division=0)
    assert result["macro_f1"] == pytest.approx(expected)
    best = f1_score(truth, probabilities > result["best_threshold"], average="micro")
    assert result["best_threshold_micro_f1"] == pytest.approx(best) and best >= result["micro_f1"]
    top = np.argsort(-probabilities, axis=1, kind="stable")[:, :3]
    assert result["precision@3"] == pytest.approx(np.mean(np.take_along_axis(truth, top, axis=1)))
    learned = [line.rsplit(",", 1)[1].split("|") for line in Path("train.csv").read_text().splitlines()[1:]]
    Y_train = sp.csr_array(np.array([[name in labels for name in names] for labels in learned], int))
    expected = psp_at_k(sp.csr_array(truth.astype(int)), top, 3, propensities(Y_train))
    assert result["psp@3"] == pytest.approx(expected)
    recall = recall_score(truth, predicted, average="micro")
    groups = result["by_frequency"]
    assert sum(g["recall"] * g["true"] for g in groups) / truth.sum() == pytest.approx(recall)
    text = call("evaluate", "m", "test.csv").out
    assert "best on these rows" in text and "PSP@k" in text and "Most confused" not in text
    trained = open_model("m")
    trained.n_counted = 0  # as in a model that was saved in Python
    trained.save("copy")
    copy = call("evaluate", "copy", "test.csv")
    assert "PSP@k is left out" in copy.err and "PSP@k" not in copy.out


def test_rows_without_any_label_are_reported(call, tags):
    Path("none.jsonl").write_text('{"text": "word1 word2", "tags": []}\n{"text": "word3", "tags": []}\n')
    result = call("evaluate", "m", "none.jsonl")
    assert result.code == 0 and "warning: no row of none.jsonl has a label, so nothing can be correct." in result.err
    assert "no row of" not in call("evaluate", "m", "test.csv").err


def test_unknown_labels_are_counted_and_named(call, digits, model):
    lines = Path("test.svm").read_text().splitlines()
    changed = [f"77 {line.split(' ', 1)[1]}" for line in lines[:3]] + lines[3:]
    Path("odd.svm").write_text("\n".join(changed) + "\n")
    words = "3 of 200 rows (1.50%) have labels that the model has never seen, such as 77; they count as errors."
    result = call("evaluate", "m", "odd.svm", "--json")
    assert words in result.err
    found = json.loads(result.out)
    assert found["n_unknown_rows"] == 3 and found["unknown_labels"] == [{"label": 77, "rows": 3}]
    assert words in found["warnings"][0] and found["by_frequency"][0]["labels"] == 1
    assert "3 (1.50 %)" in call("evaluate", "m", "odd.svm").out
    y = np.append([77] * 3, digits[1][703:900])
    assert found["macro_f1"] == pytest.approx(f1_score(y, model.predict(digits[0][700:900]), average="macro"))
    assert evaluated(call, "m", "test.svm")["warnings"] == []


def test_unknown_labels_are_not_copied_to_an_array_of_texts(call):
    """Where every label would take as much memory as the longest one."""
    Path("train.csv").write_text("text,kind\n" + "red paint,warm\nblue paint,cold\n" * 5)
    assert call("train", "train.csv", "--label", "kind", "--text", "text", "--model", "m").code == 0
    Path("new.csv").write_text(f"text,kind\nred paint,hot\nblue paint,{'x' * 1000}\n")
    trained = open_model("m")
    found = Evaluation(trained, Source("new.csv", trained.reading))
    assert found.labels[2:] == ["hot", "x" * 1000]
    assert all(label is known for label, known in zip(found.labels[2:], found._unknown, strict=True))


def test_a_forgotten_separator_is_recognised(call, tags):
    rows = [{"text": line.rsplit(",", 1)[0], "tags": line.rsplit(",", 1)[1].split("|")}
            for line in Path("train.csv").read_text().splitlines()[1:]]  # fmt: skip
    Path("train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call("train", "train.jsonl", "--label", "tags", "--text", "text", "--model", "j").code == 0
    result = call("evaluate", "j", "test.csv")
    assert result.code == 0 and "If they are several labels, specify --label-separator '|'." in result.err
    right = call("evaluate", "j", "test.csv", "--label-separator", "|")
    assert right.err == ""
    Path("one.csv").write_text("text,tags\n" + "".join(f"word{i},label {i}\n" for i in range(12)))
    assert call("train", "one.csv", "--label", "tags", "--text", "text", "--model", "o").code == 0
    result = call("evaluate", "o", "test.csv")
    assert "train the model with --label-separator '|'; it was trained with one label per row." in result.err


def test_separators_are_not_looked_for_in_very_long_labels(call):
    Path("one.csv").write_text("text,kind\n" + "red paint,warm\nblue paint,cold\n" * 5)
    assert call("train", "one.csv", "--label", "kind", "--text", "text", "--model", "o").code == 0
    for n_labels, suggested in ((200, True), (202, False)):  # 999 and 1009 characters
        Path("new.csv").write_text(f"text,kind\nred paint,{'|'.join(['warm', 'cold'] * (n_labels // 2))}\n")
        assert ("--label-separator '|'" in call("evaluate", "o", "new.csv").err) == suggested


def test_compare_lists_the_classes_that_change(call, digits, model):
    assert call(*TRAIN, "--model", "better", "--epochs", 3).code == 0
    result = json.loads(call("compare", "m", "better", "test.svm", "--json").out)
    X, y = digits[0][700:900], digits[1][700:900]
    first, second = model.predict(X) == y, load_model("better").predict(X) == y
    changes = [int(second[y == label].sum()) - int(first[y == label].sum()) for label in range(10)]
    assert result["changed_classes"][-1]["second"] - result["changed_classes"][-1]["first"] == max(changes) > 0
    text = call("compare", "m", "better", "test.svm").out
    assert "candidate recall" in text and "macro-F1" in text and "Correct rows of the classes" in text
    Path("m").rename("<$m$_^$>")
    words = ("compare", "<$m$_^$>", "better", "test.svm", "--report", "r.html", "--picture", "p.png")
    assert call(*words).code == 0
    page = Page(Path("r.html").read_text(encoding="utf-8"))
    shown = "\n".join(page.texts)
    assert page.links and all(link.startswith("#") for link in page.links)
    assert "<$m$_^$> and better" in shown and "only second correct" in shown and f"p = {result['p_value']:.3g}" in shown
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")


class Page(HTMLParser):
    """The elements, links and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.texts = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.links += [value for name, value in attributes if name.endswith(("href", "src", "action", "data"))]
        assert not [name for name, _ in attributes if name.startswith("on")]

    def handle_data(self, data):
        self.texts.append(data)


HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "</td></table>&lt;b\u202e", "</style><b>"]


def test_the_report_is_one_page_without_links_and_shows_hostile_labels_as_text(call):
    rng = np.random.default_rng(0)
    rows = [{"text": f"{HOSTILE[rng.integers(4)]} word{rng.integers(4)}", "kind": HOSTILE[i % 4]} for i in range(80)]
    lines = list(map(json.dumps, rows))
    Path("d.jsonl").write_text("\n".join([*lines, json.dumps({"text": "new", "kind": "<i>new</i>"})]) + "\n")
    Path("train.jsonl").write_text("\n".join(lines) + "\n")
    assert call("train", "train.jsonl", "--label", "kind", "--text", "text", "--model", "<m>", "--epochs", 1).code == 0
    result = call("evaluate", "<m>", "d.jsonl", "--report", "r.html", "--picture", "p.svg")
    assert result.code == 0 and "Wrote r.html" in result.err and "Wrote p.svg" in result.err
    text = Path("r.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.tags & {"script", "img", "i", "iframe", "link", "object", "form"} and "svg" in page.tags
    assert page.links and all(link.startswith("#") for link in page.links)
    shown = "\n".join(page.texts)
    assert "\u202e" not in text and "\\u202e" in shown
    for words in (
        *HOSTILE[:2],
        "<i>new</i>",
        "Evaluation of <m>",
        "Worst classes",
        "Most confused",
        "Confident errors",
        "never seen",
    ):
        assert words in shown
    assert "default-src 'none'" in text
    assert call("evaluate", "<m>", "d.jsonl", "--report", "again.html").code == 0
    time = re.compile(r"<td>µs</td><td class=.number.>[\d,]+<")
    assert time.sub("", Path("again.html").read_text(encoding="utf-8")) == time.sub("", text) != text


def test_the_report_has_the_most_confident_errors(call, digits, model):
    assert call("evaluate", "m", "test.svm", "--report", "r.html").code == 0
    X, y = digits[0][700:900], digits[1][700:900]
    probability = np.where(model.predict(X) == y, 0, model.predict_proba(X).max(axis=1))
    row = int(np.argmax(probability))
    true, predicted = y[row], model.predict(X)[row]
    cells = f'<tr><td class="number">{row + 1}</td><td>{true}</td><td>{predicted}</td>'
    assert f'{cells}<td class="number">{100 * probability[row]:.2f} %</td>' in Path("r.html").read_text()


def test_the_report_of_several_labels(call, tags):
    assert call("evaluate", "m", "test.csv", "--report", "r.html", "--picture", "p.png").code == 0
    shown = "\n".join(Page(Path("r.html").read_text()).texts)
    assert "PSP@k" in shown and "best on these rows" in shown and "Confident errors" in shown and "word1" in shown
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    assert "must end in .png or .svg" in call("evaluate", "m", "test.csv", "--picture", "p.jpg").err
    assert "no such folder" in call("evaluate", "m", "test.csv", "--report", "nowhere/r.html").err


def test_calibrated_training_and_the_risk_coverage_curve(call, digits):
    words = (*TRAIN, "--model", "m", "--epochs", 1, "-o", "beam=1")
    result = call(*words, "--calibrate", "isotonic")
    assert result.code == 0, result.err
    model = load_model("m")
    assert "calibration" in model._state and model.calibration == "isotonic"
    result = evaluated(call, "m", "test.svm", "--risk-coverage", "curve.png")
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")
    X, y = digits[0][700:900], digits[1][700:900]
    labels, probabilities = model.predict_topk(X, k=1, probabilities=True)
    curve = risk_coverage(labels[:, 0] == y, probabilities[:, 0])
    assert result["risk_coverage"]["mean_risk"] == pytest.approx(curve.area())
    assert result["risk_coverage"]["rows_at_precision"]["0.95"] == pytest.approx(curve.coverage_at(0.95))
    assert result["calibration_error"] == pytest.approx(ece_at_k(y, labels, probabilities))
    assert result["risk_coverage"]["thresholds"]["0.9"] == pytest.approx(model.rejection_threshold(X, y, 0.9))
    assert "rows predicted" in call("evaluate", "m", "test.svm", "--risk-coverage", "curve.svg").out
    lines = call("predict", "m", "test.svm", "--probabilities", "--top-k", 1).out.splitlines()[1:]
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx(probabilities[:, 0], rel=1e-5)


def test_a_wrong_name_of_the_curve_is_an_error(call, digits, model):
    result = call("evaluate", "m", "test.svm", "--risk-coverage", "curve.txt")
    assert result.code != 0 and "--risk-coverage curve.txt: the name must end in .png or .svg" in result.err
