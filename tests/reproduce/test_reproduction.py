"""The reproduction at the smallest size: Figure 3, the page from a folder of results, what becomes of a script."""

import argparse
import csv
import importlib
import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from manyclass import SGD, RecallTreeClassifier
from manyclass.datasets.packed import pack_split, write_packed
from manyclass.metrics import difference_interval
from reproduce import all as driver
from reproduce import page, report

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "reproduce"


@pytest.fixture(scope="module")
def figure_3(tmp_path_factory):
    """The folder of the results of `figure_3.py --quick`."""
    folder = tmp_path_factory.mktemp("figure_3")
    command = [sys.executable, str(SCRIPTS / "recall_tree_2017" / "figure_3.py"), "--quick", "--results", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("MANYCLASS_DATA", None)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return folder


@pytest.mark.slow
def test_scripts_run_small_on_what_ships(tmp_path):
    """A script of each paper, and one without its data; `make reproduce QUICK=1` runs all of them."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MANYCLASS_CACHE": str(tmp_path)}
    environment.pop("MANYCLASS_DATA", None)
    only = ["figure_3", "topics", "online_tree_2013/table_1", "mlom_tree_2018/table_1", "theorem_2"]
    command = [sys.executable, str(SCRIPTS / "all.py"), "--quick", "--page", str(tmp_path / "page.md"), "--only", *only]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    lines = re.findall(r"^ *\d+ s  (done in part|done|no data) +(\S+\.py)", done.stdout, re.MULTILINE)
    told = {script: state for state, script in lines}
    assert told.pop("mlom_tree_2018/table_1.py") == driver.NO_DATA
    assert driver.NO_DATA not in told.values()
    assert set(told) == {
        "recall_tree_2017/figure_3.py", "spectral_tree_2015/topics.py", "online_tree_2013/table_1.py",
        "theory/theorem_2.py",
    }  # fmt: skip
    assert "MANYCLASS_DATA" in done.stdout  # what to do about the others


def errors_of(folder):
    """{(problem, model): error in percent} of the table."""
    with open(folder / "figure_3.csv", newline="", encoding="utf-8") as file:
        return {(row["problem"].split(",")[0], row["model"]): float(row["our error %"]) for row in csv.DictReader(file)}


def test_each_problem_of_figure_3_is_for_one_kind_of_model(figure_3):
    error = errors_of(figure_3)
    assert error["cells around points", "one-against-all"] < error["cells around points", "tree"] - 3
    assert error["splits", "tree"] < error["splits", "one-against-all"] - 20


def test_path_features_answer_both_problems(figure_3):
    error, crossed = errors_of(figure_3), "Recall Tree, path features crossed"
    assert error["cells around points", crossed] < error["cells around points", "tree"]
    assert error["splits", crossed] < min(error["splits", "one-against-all"] - 20, 15)
    assert error["splits", crossed] < error["splits", "Recall Tree, no path features"]


def test_figure_3_has_a_picture_and_says_where_it_comes_from(figure_3):
    head = (figure_3 / "figure_3.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert min(struct.unpack(">II", head[16:24])) > 400
    origin = json.loads((figure_3 / "figure_3.json").read_text())
    assert {"date", "commit", "machine", "python"} <= set(origin)
    assert (origin["script"], origin["quick"]) == ("figure_3.py", True)


@pytest.fixture
def results(tmp_path):
    """A folder like reproduce/ with a table of the list, with all that goes with it, and one of no paper."""
    folder = tmp_path / "reproduce" / "recall_tree_2017" / "results"
    folder.mkdir(parents=True)
    (folder / "in_order.csv").write_text("order,paper error %,our error %\nin order,73.3,83.46\na|b,74.6,–\n")
    (folder / "in_order.md").write_text("# A title\n\n| order |\n| --- |\n\nFirst note.\n\nSecond note.\n")
    origin = {"date": "2026-01-02 03:04 UTC", "commit": "abc1234", "machine": "a machine", "python": "3.12.1"}
    (folder / "in_order.json").write_text(json.dumps(origin))
    (folder / "in_order.png").write_bytes(b"")
    other = tmp_path / "reproduce" / "some_folder" / "results"
    other.mkdir(parents=True)
    (other / "extra.csv").write_text("a\n1\n")
    return tmp_path


def test_the_page_shows_table_notes_origin_and_plot(results):
    target = results / "docs" / "reproduction.md"
    missing = page.write_page(results / "reproduce", target)
    text = target.read_text(encoding="utf-8")
    at = text.index("### Figure 5a")
    part = text[at : text.index("###", at + 4)]
    assert "| order | paper error % | our error % |\n| --- | ---: | ---: |\n| in order | 73.3 | 83.46 |\n" in part
    assert "| a/b | 74.6 | – |" in part
    assert "First note.\n\nSecond note." in part and "A title" not in part
    assert "2026-01-02 03:04 UTC, commit abc1234, a machine, Python 3.12.1" in part
    [plot] = re.findall(r"!\[[^]]+\]\(([^)]+)\)", part)
    assert (target.parent / plot).resolve() == results / "reproduce" / "recall_tree_2017" / "results" / "in_order.png"
    assert "recall_tree_2017/in_order" not in missing and "recall_tree_2017/figure_4" in missing
    assert "Not run yet: `python reproduce/recall_tree_2017/figure_4.py`" in text


def test_what_no_paper_asks_for_comes_last(results):
    page.write_page(results / "reproduce", results / "page.md")
    text = (results / "page.md").read_text(encoding="utf-8")
    assert text.index(f"## {page.BEYOND}") < text.index("### extra")
    assert "From `reproduce/some_folder`" in text


def test_a_quick_page_takes_quick_results_only_and_says_so(results):
    quick = results / "reproduce" / "theory" / "results" / "quick"
    quick.mkdir(parents=True)
    (quick / "theorem_2.csv").write_text("labels,splits\n4,1\n")
    missing = page.write_page(results / "reproduce", results / "page.md", quick=True)
    text = (results / "page.md").read_text(encoding="utf-8")
    assert "mean nothing" in text and "| 4 | 1 |" in text
    assert "83.46" not in text and "recall_tree_2017/in_order" in missing and "theory/theorem_2" not in missing


def test_every_script_of_the_page_and_of_the_run_is_there():
    scripts = {f"{folder}/{script}" for folder, wanted in page.PAPERS.values() for _, _, script in wanted}
    scripts |= {step.script for step in driver.STEPS}
    assert [script for script in sorted(scripts) if not (SCRIPTS / script).is_file()] == []


def test_runs_are_kept_and_shown(results, monkeypatch):
    monkeypatch.setattr(driver, "HERE", results / "reproduce")
    steps = driver.STEPS[:2]
    monkeypatch.setattr(driver, "STEPS", steps)
    first = driver.Outcome(steps[0], driver.DONE, 7.4, "", 4.0)
    driver.remember([first, driver.Outcome(steps[1], driver.FAILED, 2.0, "", 2.2)], elapsed=8.0)
    driver.remember([driver.Outcome(steps[1], driver.DONE, 3.0, "", 2.0)], elapsed=3.0)
    runs = page.read_runs(results / "reproduce")
    assert {script: (run["state"], run["seconds"]) for script, run in runs.items()} == {
        steps[0].script: (driver.DONE, 7), steps[1].script: (driver.DONE, 3), page.WHOLE: (driver.PARTLY, 8),
    }  # fmt: skip
    page.write_page(results / "reproduce", results / "page.md")
    assert f"| {page.WHOLE} | done in part | 8 | 6 | " in (results / "page.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Scripts that end in different ways, in place of the real ones."""
    texts = {
        "good.py": "import sys\nprint('a  b')\nprint('-  -')\nprint(sys.argv[1:])",
        "bad.py": "raise SystemExit('it went wrong')",
        "without.py": "print('skipped: no such set')",
        "partly.py": "print('skipped: no such set')\nprint('-----  ---')",
        "slow.py": "import time\ntime.sleep(600)",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(driver, "HERE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("script", "state", "reason"),
    [
        ("good.py", driver.DONE, ""),
        ("bad.py", driver.FAILED, "it went wrong"),
        ("without.py", driver.NO_DATA, "skipped: no such set"),
        ("partly.py", driver.PARTLY, "skipped: no such set"),
    ],
)
def test_what_becomes_of_a_script(folder, script, state, reason):
    [outcome] = driver.run_all([driver.Step(script)], quick=False, limit=600.0)
    assert (outcome.state, outcome.reason) == (state, reason)
    assert 0.0 < outcome.processor


def test_a_script_that_takes_too_long_is_ended(folder):
    [outcome] = driver.run_all([driver.Step("slow.py")], quick=False, limit=1.0)
    assert outcome.state == driver.LATE


@pytest.mark.parametrize(("scripts", "status"), [(("bad.py", "good.py"), 1), (("without.py", "good.py"), 0)])
def test_the_rest_runs_and_only_failures_count(folder, monkeypatch, capsys, scripts, status):
    monkeypatch.setattr(driver, "STEPS", tuple(driver.Step(script, ("--size", "3")) for script in scripts))
    assert driver.main(["--quick", "--page", str(folder / "page.md")]) == status
    told = capsys.readouterr().out
    assert "['--quick', '--size', '3']" in told  # the last one ran, with its options
    assert re.search(r"\d+ s  done +good\.py", told)
    assert (folder / "page.md").exists()


def test_the_page_alone_runs_nothing(folder, monkeypatch, capsys):
    monkeypatch.setattr(driver, "STEPS", (driver.Step("bad.py"),))
    assert driver.main(["--page-only", "--page", str(folder / "page.md")]) == 0
    assert "it went wrong" not in capsys.readouterr().out


def test_a_comparison_has_the_interval_and_the_p_value():
    told = report.compare(8.6, 10_800, "12.1", 10_800)
    low, high = difference_interval(929, 10_800, 1307, 10_800)
    assert told == {"ours − paper [95 %]": f"-3.50 [{100 * low:+.2f}, {100 * high:+.2f}]", "p, vs paper": "< 0.0001"}
    assert set(report.compare(8.6, 10_800, None, 10_800, "VW").values()) == {None}


def test_models_on_the_same_rows_are_compared_in_pairs():
    """Ten rows that only the first model predicts, two that only the second does, of 100."""
    first, second = np.arange(100) < 60, (np.arange(100) >= 10) & (np.arange(100) < 62)
    p = sum(math.comb(12, i) for i in (0, 1, 2)) / 2**11
    assert report.mcnemar(first, second) == pytest.approx(p) and report.mcnemar(second, first) == pytest.approx(p)
    told = report.paired(first, second, "VW")
    assert told["p, vs VW"] == f"{p:.4f}"
    gap, low, high = map(float, re.findall(r"[-+]\d+\.\d+", told["ours − VW [95 %]"]))
    assert gap == -8.0 and low < -8.0 < high < 0.0
    # Bonett and Price (2012), their rule by hand: (3 - 11) / 102 -+ z sqrt((14/102 - (8/102)^2) / 102)
    half = 1.959964 * math.sqrt((14 / 102 - (8 / 102) ** 2) / 102)
    assert (low, high) == pytest.approx((100 * (-8 / 102 - half), 100 * (-8 / 102 + half)), abs=0.006)
    assert set(report.paired(first, None, "VW").values()) == {None}


@pytest.fixture
def figure_4(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPTS / "recall_tree_2017"))
    return importlib.import_module("figure_4")


def test_a_script_takes_the_papers_own_set_where_it_is(tmp_path, monkeypatch, capsys, figure_4):
    """Slices of ODP and of enwik9 in the format of `manyclass data`: two splits of word counts; words by number."""
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    monkeypatch.setenv("MANYCLASS_CACHE", str(tmp_path / "cache"))
    assert figure_4.own_or_substitute("odp", "revdict") == "revdict"
    counts = sp.random(60, 30, 0.2, "csr", np.float32, np.random.default_rng(0))
    y = np.arange(60, dtype=np.int32) % 7
    write_packed(tmp_path / "odp.npz.xz", pack_split(counts[:40], y[:40], "train") | pack_split(counts, y, "test"))
    words = np.arange(50, dtype=np.uint32) * 1600
    write_packed(tmp_path / "enwik9.npz.xz", {"train": words, "valid": words, "test": words, "vocab": words})
    names = [figure_4.own_or_substitute(*figure_4.SETS[theirs]) for theirs in ("ODP", "LTCB")]
    assert names == ["odp", "enwik9"]
    said = capsys.readouterr().out
    assert "data: revdict, a substitute: odp is not here" in said and "data: odp\n" in said
    args = argparse.Namespace(quick=False, tokens=40)
    X, labels, X_test, test_labels = figure_4.rows_of("odp", args)
    assert X.shape == (40, 30) and X_test.shape == (60, 30) and labels.tolist() == y[:40].tolist()
    np.testing.assert_allclose(X.power(2).sum(axis=1)[X.getnnz(axis=1) > 0], 1.0, rtol=1e-5)
    X, labels, X_test, test_labels = figure_4.rows_of("enwik9", args)
    assert X.shape == (34, 6 * report.VOCABULARY["enwik9"]) and labels[0] == words[6] and len(test_labels) == 44
    assert X[0].indices[-1] == words[5] + 5 * report.VOCABULARY["enwik9"]


@pytest.mark.parametrize("start", [1 / 64, 4.0])
def test_the_search_doubles_or_halves_the_rate_and_sees_no_test_rows(start):
    X, y = load_digits(return_X_y=True)
    model = report.tuned(RecallTreeClassifier(), SGD(rate=start), X[:1500], y[:1500], n_epochs=2, trial=(1, 1500))
    assert (model.learner.rate > start) if start < 1 else (model.learner.rate < start)
    assert np.log2(model.learner.rate / start) % 1 == 0 and 1 <= model.n_epochs <= 2
    assert model.random_state == 0 and model.early_stopping is False and not hasattr(model, "history_")


def committed_pairs():
    """The tables that have the results of each row beside them."""
    return sorted(SCRIPTS.glob("*/results/*.npz"))


@pytest.mark.parametrize("path", committed_pairs(), ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_p_values_of_committed_tables_follow_from_the_rows_beside_them(path):
    with np.load(path, allow_pickle=False) as file:
        correct = dict(file)
    with open(path.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    repeated, above = 0, ""
    for row in rows:
        cells = list(row.values())
        [n] = [n for n in (1, 2, 3) if ": ".join(cells[:n]) in correct] or [0]
        for column in row:
            # "flat" and "flat, low rank" are short names of "flat, rank 50"
            named = ": ".join([*cells[: n - 1], column.removeprefix("p, vs ")])
            names = [above] if column == "p, vs row above" else [named, f"{named.removesuffix(', low rank')}, rank 50"]
            others = [correct[name] for name in names if name in correct]
            if n and column.startswith("p, vs ") and others and row[column] != "–":
                told = report.paired(correct[": ".join(cells[:n])], others[0], column.removeprefix("p, vs "))
                assert {key: row[key] for key in told} == told
                repeated += 1
        above = ": ".join(cells[:n])
    assert repeated > 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "nonsense"], "--only nonsense: no script has this in its path"),
        (["--limit", "0"], "--limit must be more than 0 and finite, got 0"),
        (["--limit", "-3"], "--limit must be more than 0 and finite, got -3"),
    ],
)
def test_options_that_cannot_be_are_refused(words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        driver.main(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_scripts_about_time_run_alone(folder):
    (folder / "wait.py").write_text(
        "import sys, time, pathlib\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "start = time.time()\ntime.sleep(0.5)\npath.write_text(f'{start} {time.time()}')\n"
    )
    steps = [driver.Step("wait.py", (str(folder / str(i)),), alone=i == 0) for i in range(3)]
    outcomes = driver.run_all(steps, quick=False, limit=600.0)
    assert [outcome.state for outcome in outcomes] == [driver.DONE] * 3
    assert outcomes[-1].step is steps[0]
    times = [tuple(map(float, (folder / str(i)).read_text().split())) for i in range(3)]
    assert times[0][0] > max(times[1][1], times[2][1])


def test_an_interrupted_run_says_where(folder, monkeypatch, capsys):
    seen = []

    def stop_at_slow(script):
        seen.append(script)
        if script.step.script == "slow.py":
            raise KeyboardInterrupt
        return outcome(script)

    outcome = driver.Script.outcome
    monkeypatch.setattr(driver.Script, "outcome", stop_at_slow)
    monkeypatch.setattr(driver, "STEPS", (driver.Step("slow.py"), driver.Step("good.py")))
    assert driver.main(["--quick", "--page", str(folder / "page.md")]) == 130
    assert "interrupted; not run to the end: slow.py, good.py" in capsys.readouterr().err
    assert seen[0].process.wait() == -signal.SIGKILL
    assert (folder / "page.md").exists()  # of what was done before
