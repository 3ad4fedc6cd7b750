"""Tables as people export them: `manyclass train FILE --label L`, and the same model in Python."""

import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from manyclass import load_model
from manyclass.cli import rows
from manyclass.cli.files import open_source
from manyclass.core import model_file
from manyclass.core.model_file import ModelFormatError
from manyclass.io import lines

WORDS = ["sock", "shoe", "hat", "coat", "glove", "belt", "shirt", "scarf", "boot", "dress"]
TRAIN = ("train", "train.csv", "--label", "kind", "--model", "m")


def frame(n, seed):
    """A table with a text, a name, a number in another unit, a category, a date and an id; ten kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 10, n)
    other = rng.integers(0, 10, n)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "title": [f"a {WORDS[k]} or {WORDS[o]} for you" for k, o in zip(kind, other, strict=True)],
            "code": [f"{WORDS[k][:3]}-{i:05}" for i, k in enumerate(kind)],
            "grams": 1e6 * rng.random(n) + 1e5 * kind,
            "colour": rng.choice(["red", "green", "blue"], n),
            "added": [f"2024-{m:02}-01" for m in rng.integers(1, 13, n)],
            "kind": [f"kind {k}" for k in kind],
        }
    )


@pytest.fixture
def table(call):
    frame(1200, 0).to_csv("train.csv", index=False)
    frame(300, 1).to_csv("test.csv", index=False)


def accuracy(result):
    assert result.code == 0, result.err
    return json.loads(result.out)["test"]["accuracy"]


def test_columns_are_chosen_and_shown(call, table):
    result = call(*TRAIN, "--test", "test.csv", "--json")
    assert accuracy(result) > 0.95
    shown = {line.split()[0]: line.split(None, 1)[1] for line in result.err.splitlines() if line.startswith("  ")}
    assert shown["text"].startswith("title, code (words; 2 to 4 characters of code; idf)")
    assert (shown["numeric"], shown["categorical"]) == ("grams", "colour")
    assert (shown["date"], shown["ignored"]) == ("added", "id")
    assert "decimal comma" not in call("inspect", "m").out


def kinds(result):
    """The columns by kind as they are printed before training."""
    assert result.code == 0, result.err
    return {line.split()[0]: line.split(None, 1)[1] for line in result.err.splitlines() if line.startswith("  ")}


def test_columns_that_are_not_named_are_shown(call, table):
    shown = kinds(call(*TRAIN, "--text", "title", "--numeric", "grams"))
    assert shown == {"text": "title (words; idf)", "numeric": "grams", "ignored": "id, code, colour, added"}
    assert load_model("m")._extra["reading"].ignored == ("id", "code", "colour", "added")
    reading = open_source("test.csv", {"label": "colour"}, load_model("m")._extra["reading"]).reading
    assert reading.ignored == ("id", "code", "added", "kind")  # another column may be the label
    result = call(*TRAIN, "--ignore", "grammes")
    assert result.code == 1 and "there is no column 'grammes'; the columns are 'id', 'title'" in result.err


def test_how_cells_are_written_is_found_shown_and_stored(call, table):
    for name in ("train.csv", "test.csv"):
        data = pd.read_csv(name)
        data["added"] = pd.to_datetime(data["added"]).dt.strftime("%m/20/%Y")
        data["age"] = [str(int(kind[5:]) + 20) for kind in data["kind"]]
        data.loc[:2, "age"] = ["unknown", "old", "n/a"]
        data.loc[3, "added"] = "NULL"
        data.to_csv(name, index=False, sep=";", decimal=",")
    result = call(*TRAIN, "--test", "test.csv", "--json", "--ignore", "title", "--ignore", "code")
    assert accuracy(result) > 0.95
    shown = kinds(result)
    assert shown["numeric"] == "grams, age (decimal comma in grams; cells of age that are no numbers are missing)"
    assert shown["date"] == "added (month first in added)"
    facts = call("inspect", "m").out
    assert "decimal comma" in facts and "month first" in facts
    data = pd.read_csv("test.csv", sep=";", decimal=",")  # pandas reads the numbers as such
    expected = [line.split("\t")[0] for line in call("predict", "m", "test.csv", "--top-k", 1).out.splitlines()[1:]]
    assert load_model("m").predict(data).tolist() == expected


def test_the_order_of_the_file_does_not_matter(call, table, monkeypatch):
    monkeypatch.setattr(rows, "WINDOW", 128)
    pd.read_csv("train.csv").sort_values("kind").to_csv("sorted.csv", index=False)
    for options in ((), ("--online",), ("--online", "--row-memory", "1MB"), ("--algorithm", "one-against-all")):
        found = [
            accuracy(call("train", name, "--label", "kind", "--model", "m", "--test", "test.csv", "--json", *options))
            for name in ("train.csv", "sorted.csv")
        ]
        assert abs(found[0] - found[1]) < 0.05 and found[1] > 0.9, options


def test_a_sorted_pipe_is_reported(call, table, monkeypatch):
    monkeypatch.setattr(rows, "WINDOW", 128)
    data = pd.read_csv("train.csv")
    words = ("train", "-", "--input-format", "csv", "--label", "kind", "--text", "code", "--model", "m", "--json")
    for name, text in (("mixed", data), ("sorted", data.sort_values("kind", kind="stable"))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.to_csv(index=False).encode())))
        result = call(*words, "--algorithm", "one-against-all")
        assert result.code == 0
        warned = "in standard input, rows with the same label follow each other" in result.err
        assert warned == (name == "sorted")
        assert json.loads(result.out)["held_out_errors"][0] < 0.3  # earlier rows are repeated
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.to_csv(index=False).encode())))
    assert call(*words, "--in-memory", "--epochs", "3").code == 0


def test_without_shuffle_a_sorted_file_is_reported(call, table):
    pd.read_csv("train.csv").sort_values("kind").to_csv("sorted.csv", index=False)
    words = ("--label", "kind", "--text", "title", "--model", "m", "--online", "--epochs", 1, "--no-shuffle")
    assert "omit --no-shuffle" in call("train", "sorted.csv", *words).err
    assert "omit --no-shuffle" not in call("train", "train.csv", *words).err


def test_columns_that_the_first_rows_lack_are_reported(call, monkeypatch):
    monkeypatch.setattr(lines, "LOOK_AHEAD_LINES", 30)
    rows = [{"text": f"word{i % 3} and more", "kind": i % 3} | ({"late": "x"} if i >= 30 else {}) for i in range(60)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--label", "kind", "--model", "m")
    warning = "has columns that its first rows lack. They are not used: 'late'. To use some of them, name all columns"
    result = call("train", "a.jsonl", *words)
    assert result.code == 0 and f"Warning: a.jsonl {warning}" in result.err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("a.jsonl").read_bytes())))
    result = call("train", "-", "--input-format", "jsonl", *words)
    assert result.code == 0 and f"Warning: standard input {warning}" in result.err
    result = call("train", "a.jsonl", *words, "--text", "text", "--categorical", "late")
    assert result.code == 0 and "Warning" not in result.err
    assert load_model("m")._extra["reading"].columns == ("text", "late")


def test_resuming_keeps_the_features(call, table, monkeypatch):
    monkeypatch.setattr(rows, "WINDOW", 128)
    words = (*TRAIN, "--online", "--epochs", 2, "--checkpoint-every", 500)
    assert call(*words).code == 0
    whole = Path("m").read_bytes()
    os.unlink("m")
    real, n = rows.RowStore.windows, 0

    def killed(self, epoch):
        nonlocal n
        for chunk in real(self, epoch):
            n += 1
            if n == 7:
                raise RuntimeError("killed")
            yield chunk

    monkeypatch.setattr(rows.RowStore, "windows", killed)
    with pytest.raises(RuntimeError, match="killed"):
        call(*words)
    monkeypatch.setattr(rows.RowStore, "windows", real)
    assert call(*words, "--resume").code == 0
    assert Path("m").read_bytes() == whole


# -- the same model in Python --------------------------------------------------------------------------------------


def test_a_model_of_the_command_line_predicts_tables_in_python(call, table):
    assert call(*TRAIN).code == 0
    data = pd.read_csv("test.csv")
    lines = call("predict", "m", "test.csv", "--top-k", 1).out.splitlines()[1:]
    expected = [line.split("\t")[0] for line in lines]
    clf = load_model("m")
    assert clf.predict(data).tolist() == expected
    assert clf.predict(data.to_dict("records")).tolist() == expected
    assert clf.score(data, data["kind"]) > 0.9 and clf.predict_proba(data.head(3)).shape == (3, 10)
    assert clf.predict_topk(data.head(2), 3)[0].shape == (2, 3)
    with pytest.raises(ValueError, match="X lacks the column 'code' that the model was trained on"):
        clf.predict(data.drop(columns="code"))
    with pytest.raises(ValueError, match=r"'title', 'code'.*pass a DataFrame"):
        clf.predict(["a shoe"])
    bad = data.assign(grams="heavy")
    with pytest.raises(ValueError, match=r"X, row 1: 'heavy' in the numeric column 'grams'"):
        clf.predict(bad)


def test_a_model_of_one_text_column_predicts_texts_in_python(call, table):
    assert call(*TRAIN, "--text", "title").code == 0
    clf = load_model("m")
    texts = ["a sock for you", "a dress"]
    assert clf.predict(texts).tolist() == ["kind 0", "kind 9"]
    for same in (tuple(texts), np.array(texts), pd.Series(texts), pd.DataFrame({"title": texts})):
        assert clf.predict(same).tolist() == ["kind 0", "kind 9"]
    clf.partial_fit(["a sock or shoe"], ["new kind"])
    assert "new kind" in clf.classes_
    clf.save("n")
    assert load_model("n").predict(texts).tolist() == ["kind 0", "kind 9"]
    clf.fit(np.eye(3), ["a", "b", "c"])  # from scratch: rows are numbers again
    with pytest.raises(ValueError, match="X contains text"):
        clf.predict(texts)


def test_missing_cells_are_allowed_in_python(call, table):
    assert call(*TRAIN).code == 0
    data = pd.read_csv("test.csv").head(5)
    data.loc[0, ["title", "colour", "added"]] = None
    data.loc[1, "grams"] = np.nan
    assert len(load_model("m").predict(data)) == 5


def test_start_from_learns_new_words_with_the_columns_of_the_model(call, table):
    assert call(*TRAIN).code == 0
    more = frame(300, 2)
    more["title"], more["kind"] = "entirely unseen vocabulary", "new kind"
    more["code"] = [f"zzz-{i:05}" for i in range(300)]
    more.to_csv("more.csv", index=False)
    go_on = ("train", "more.csv", "--start-from", "m", "--model", "n")
    for option in (("--text", "code"), ("--ngrams", "2"), ("--no-idf",), ("--ignore", "code")):
        result = call(*go_on, *option)
        assert result.code == 1
        assert f"the columns and features of the model: omit {option[0].replace('no-', '')}" in result.err
    assert call(*go_on).code == 0
    assert load_model("n").predict(more.head(20)).tolist() == ["new kind"] * 20
    more.drop(columns="code").to_csv("less.csv", index=False)
    assert "there is no column 'code'" in call("train", "less.csv", "--start-from", "m", "--model", "x").err


# -- small things --------------------------------------------------------------------------------------------------


def test_options_of_features(call, table):
    for options in (("--ngrams", "2"), ("--chars", "3-4"), ("--no-idf",), ("--ignore", "title"), ("--date", "added")):
        assert call(*TRAIN, *options).code == 0, options
    assert "write two sizes" in call(*TRAIN, "--chars", "many").err
    assert "chars must be two sizes" in call(*TRAIN, "--chars", "5-3").err
    assert call(*TRAIN).code == 0
    for option in (("--ngrams", "2"), ("--text", "title")):
        result = call("evaluate", "m", "test.csv", *option)
        assert result.code == 1 and "model" in result.err


@pytest.mark.parametrize("delimiter", [";", "|", "\t"])
def test_delimiters_are_detected(call, table, delimiter):
    data = pd.read_csv("train.csv").assign(title=lambda table: table["title"] + ", really")
    data.to_csv("other.csv", index=False, sep=delimiter)
    assert call("train", "other.csv", "--label", "kind", "--model", "m").code == 0
    assert call("evaluate", "m", "test.csv").code == 0  # with commas
    data.to_csv("odd.csv", index=False, sep="~")
    assert "there is no column 'kind'" in call("train", "odd.csv", "--label", "kind", "--model", "m").err
    assert call("train", "odd.csv", "--label", "kind", "--model", "m", "--delimiter", "~").code == 0
    assert call("predict", "m", "odd.csv").code == 0


def test_long_cells(call, table):
    data = pd.read_csv("train.csv")
    data.loc[0, "title"] = "word " * 50_000
    data.to_csv("train.csv", index=False)
    assert call(*TRAIN).code == 0


@pytest.mark.parametrize(("cell", "what"), [("NaN", "is 'NaN'"), ("", "is missing")])
def test_missing_labels(call, table, cell, what):
    data = pd.read_csv("train.csv")
    data.loc[3, "kind"] = cell
    data.to_csv("train.csv", index=False)
    result = call(*TRAIN)
    assert result.code == 1 and "train.csv, line 5, column" in result.err
    assert f"the label (column 'kind') {what}; skip such rows with --skip-bad-lines" in result.err
    assert call(*TRAIN, "--skip-bad-lines").code == 0


@pytest.mark.parametrize("options", [(), ("--online",)])
def test_one_class_is_refused(call, table, options):
    pd.read_csv("train.csv").assign(kind="all").to_csv("train.csv", index=False)
    result = call(*TRAIN, *options)
    assert result.code == 1 and "all rows have the label 'all'" in result.err and not os.path.exists("m")


def test_the_test_file_is_checked_before_training(call, table):
    pd.read_csv("test.csv").drop(columns="kind").to_csv("test.csv", index=False)
    result = call(*TRAIN, "--test", "test.csv")
    assert result.code == 1 and "test.csv, line 1" in result.err and "reading:" not in result.err
    Path("test.csv").write_text("id,title,code,grams,colour,added,kind\n")
    assert "there are no rows to evaluate" in call(*TRAIN, "--test", "test.csv").err


def test_a_data_file_is_not_overwritten(call, table):
    before = Path("train.csv").read_bytes()
    assert "is the name of a data file" in call(*TRAIN[:-1], "train.csv").err
    Path("notes").write_text("important")
    assert "notes is not a model and would be overwritten" in call(*TRAIN[:-1], "notes").err
    assert Path("train.csv").read_bytes() == before and Path("notes").read_text() == "important"


def test_damaged_weights_in_a_model_file_are_refused(call, table):
    assert call(*TRAIN).code == 0
    arrays, metadata = model_file.read("m", mmap=False)
    wrong = dict(arrays)
    wrong["reading.known"] = arrays["reading.known"][::-1].copy()
    model_file.write("bad", wrong, metadata)
    with pytest.raises(ModelFormatError, match=r"bad: .*the known words of the weighting are not sorted"):
        load_model("bad")
    del wrong["reading.known"]
    model_file.write("bad", wrong, metadata)
    assert "the arrays of the weighting" in call("predict", "bad", "test.csv").err
    metadata["extra"]["reading"]["weighting"] = None  # rows without weights have more features
    model_file.write("bad", arrays, metadata)
    assert "the weights of the columns are missing" in call("predict", "bad", "test.csv").err


def test_json_lines_without_the_columns_of_the_model(call, table):
    assert call(*TRAIN).code == 0
    rows = frame(5, 3).to_dict("records")
    lines = [json.dumps({name: row[name] for name in ("title", "kind")}) + "\n" for row in rows]
    Path("some.jsonl").write_text("".join(lines))
    for command in ("predict", "evaluate"):
        result = call(command, "m", "some.jsonl")
        assert result.code == 0 and "some.jsonl: no row has the columns" in result.err and "'colour'" in result.err
    Path("none.jsonl").write_text('{"titel": "a sock", "kind": "kind 1"}\n')
    result = call("predict", "m", "none.jsonl")
    assert result.code == 1 and "the first rows have none of the columns 'title'" in result.err


def test_labels_that_may_not_be_meant(call, table, tmp_path):
    tags = ["red", "blue", "green", "big", "small", "old", "new", "hot"]
    rows = [f'"{tags[i % 8]}, {tags[i * i % 7]}, {tags[i // 5 % 8]}",word {i % 9}\n' for i in range(300)]
    (tmp_path / "tags.csv").write_text("kind,text\n" + "".join(rows))
    result = call("train", "tags.csv", "--label", "kind", "--model", "t")
    assert "most labels contain ','" in result.err and "--label-separator ','" in result.err
    assert "contain" not in call("train", "tags.csv", "--label", "kind", "--model", "u", "--label-separator", ",").err
    few = [f"t{i % 55};t{55 + i % 89},word {i % 9}\n" for i in range(200)]  # no cell occurs twice
    (tmp_path / "few.csv").write_text("kind,text\n" + "".join(few))
    assert "--label-separator ';'" in call("train", "few.csv", "--label", "kind", "--model", "w").err
    rows = [f'{["refund", "refund ", "Refund", "size"][i % 4]!r},word {i % 4}\n'.replace("'", '"') for i in range(40)]
    (tmp_path / "cases.csv").write_text("kind,text\n" + "".join(rows))
    err = call("train", "cases.csv", "--label", "kind", "--model", "v").err
    assert "differ only in case or spaces are different classes: 'refund' and 'refund ', 'refund' and 'Refund'" in err
    assert "different classes" not in call(*TRAIN).err


def test_a_threshold_below_which_labels_are_left_out_is_reported(call, table):
    assert call(*TRAIN).code == 0
    assert "above the threshold, and perhaps more" in call("predict", "m", "test.csv", "--threshold", "0").err
    assert "above the threshold" not in call("predict", "m", "test.csv", "--threshold", "0", "--top-k", "10").err
    assert "above the threshold" not in call("predict", "m", "test.csv", "--threshold", "0.4").err


def test_a_file_of_fasttext_is_named(call, tmp_path):
    (tmp_path / "train.txt").write_text("__label__fruit a red apple\n")
    result = call("train", "train.txt", "--model", "m.model")
    assert result.code == 1 and "from_fasttext.md" in result.err
