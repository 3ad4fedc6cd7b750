"""`manyclass tune`: the settings that it tries, and the command line that it prints."""

import json
import re
import shlex
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from manyclass import load_model
from manyclass.cli.algorithms import make_estimator
from manyclass.cli.tune import _SPACES, Search, Setting
from manyclass.estimators import ESTIMATORS


def plan(data, **options):
    usual = {"reading": {}, "algorithm": None, "minutes": 60.0, "trials": 3, "max_rows": 10_000, "epochs": 1, "seed": 0}
    return SimpleNamespace(data=data, **{**usual, "threads": 1, "as_json": False, **options})


def test_the_printed_command_line_works(call, digits):
    words = ("tune", "train.svm", "--features", 64, "--trials", 1, "--epochs", 1)
    result = call(*words)
    assert result.code == 0 and "490 training rows, 105 rows to choose by" in result.err
    assert result.out.startswith("# the defaults stand: ")
    command = result.out.splitlines()[-1]
    assert command == "manyclass train train.svm --features 64 --algorithm label-tree --epochs 1 --model MODEL"
    assert call(*command.replace("MODEL", "tuned").split()[1:]).code == 0
    found = json.loads(call(*words, "--json").out)
    assert found["trials"] == 1 and found["defaults_stand"] and found["command"] == command
    assert 0.5 < found["default_accuracy"] == found["accuracy"] <= 1 and found["p_value"] == 1
    Path("few.svm").write_text("1 1:1\n2 2:1\n3 1:2\n")
    assert "3 rows are too few to hold some out" in call("tune", "few.svm", "--features", 3).err


def test_the_printed_command_line_reads_the_file_in_the_same_way(call):
    rows = [f"a{i % 4} b{i % 3}|{i}|{i % 4}\n" for i in range(60)]
    Path("t.csv").write_text("a text|number|kind\n" + "".join(rows) + "bad\n")
    words = ("--label", "kind", "--text", "a text", "--numeric", "number", "--no-idf", "--chars", "2-3", "--ngrams", 2,
             "--feature-bits", 12, "--delimiter", "|", "--skip-bad-lines")  # fmt: skip
    result = call("tune", "t.csv", *words, "--trials", 1)
    assert result.code == 0, result.err
    command = shlex.split(result.out.splitlines()[-1].replace("MODEL", "tuned"))
    assert "--no-idf" in command and call(*command[1:]).code == 0
    assert call("train", "t.csv", *words, "--model", "m").code == 0
    assert load_model("tuned")._extra["reading"] == load_model("m")._extra["reading"]


def test_a_better_setting_is_printed(call, digits, capsys):
    search = Search(plan("train.svm", reading={"features": 64}, algorithm="one-against-all", trials=4))
    search.default = Setting("one-against-all", False, ("learner=sgd", "learner.rate=1e-09"))
    search.run()
    search.report()
    comment, command = capsys.readouterr().out.splitlines()
    assert comment.startswith("# better than the defaults: ") and search.p_value < 0.05
    assert search.best != search.default and search.scores["accuracy"] > search.scores["default_accuracy"]
    assert call(*command.replace("MODEL", "tuned").split()[1:], "--test", "test.svm").code == 0
    # The same search gives the same result.
    again = Search(plan("train.svm", reading={"features": 64}, algorithm="one-against-all", trials=4))
    again.default = search.default
    again.run()
    assert again.best == search.best and again.scores == search.scores


def test_settings_are_different_and_valid(call):
    words = np.random.default_rng(0).integers(30, size=(60, 4))
    rows = [f"{' '.join(f'w{word}' for word in row)},{row[0] % 3}\n" for row in words]
    Path("t.csv").write_text("text,kind\n" + "".join(rows))
    search = Search(plan("t.csv", reading={"label": "kind", "text": ["text"]}))
    settings = list(islice(search._settings(), 60))
    assert settings[0] == Setting("label-tree", True, ()) and len(set(settings)) == 60
    algorithms = {setting.algorithm for setting in settings}
    assert algorithms == {"label-tree", "recall-tree", "one-against-all", "spectral-tree"}
    assert {setting.in_memory for setting in settings if setting.algorithm == "label-tree"} == {True, False}
    for setting in settings:
        assert make_estimator(setting.algorithm, setting.options, 0) and len(setting.options) <= 4
    wider = next(setting for setting in settings if setting.features)
    assert search._with_features(wider.features).X.shape[1] == 2 ** dict(wider.features)["feature_bits"]
    assert re.search(r"--feature-bits \d+", " ".join(wider.words()))


def test_rows_are_from_the_whole_file(call):
    rows = [f"word{i} of kind{i // 30},{i // 30}\n" for i in range(300)]
    Path("sorted.csv").write_text("text,kind\n" + "".join(rows))
    search = Search(plan("sorted.csv", reading={"label": "kind", "text": ["text"]}, max_rows=100))
    assert search.n_classes == 10
    rows, others = search._with_features(()), search._with_features((("feature_bits", 10),))
    assert rows.X.shape == (100, 2**20) and others.X.shape == (100, 2**10)
    assert rows.y.tolist() == others.y.tolist()


def test_several_labels_per_row(call):
    rows = [f"a{i % 4} b{i % 3},{i % 4};{4 + i % 3}\n" for i in range(120)]
    Path("t.csv").write_text("text,tags\n" + "".join(rows))
    words = ("--label", "tags", "--text", "text", "--label-separator", ";", "--trials", 2, "--feature-bits", 10)
    result = json.loads(call("tune", "t.csv", *words, "--minutes", 60, "--json").out)
    assert result["trials"] >= 2 and result["accuracy"] > 0.9
    assert "--label-separator ';'" in result["command"] and "--feature-bits 10" in result["command"]


@pytest.mark.parametrize("space", _SPACES)
def test_options_exist(space):
    algorithm = space.split()[0]
    learner = ["learner=sgd"] if "learner.rate" in _SPACES[space] and "learner" not in _SPACES[space] else []
    for end in (0, -1):
        options = [f"{name}={values[end]}" for name, values in _SPACES[space].items()]
        assert make_estimator(algorithm, learner + options, 0)
    assert len(_SPACES[space]) == 3 and {name.split()[0] for name in _SPACES} == set(ESTIMATORS)
