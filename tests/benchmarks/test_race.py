"""The race on a slice of WordNet: cells, going on after a stop, what fails or is late, the page. Installs nothing."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import cell as cell_module
from benchmarks import race_page, race_run
from benchmarks.entrants import ENTRANTS, settings_of
from benchmarks.race import main
from benchmarks.race_plots import style
from benchmarks.race_run import Plan, read_cells, run_race
from benchmarks.sets import SCALE, SETS, SetUnavailable, prepare, shuffled

OURS = ("recall-tree", "label-tree", "one-against-all")  # the others take the same way; `make race QUICK=1` has all


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A race that is over: three of ours, a peer that fails, one that is too late."""
    folder = tmp_path_factory.mktemp("race")
    (folder / "fails.py").write_text("raise SystemExit('no room in /usr/share/somewhere')")
    (folder / "sleeps.py").write_text("import time\ntime.sleep(600)")
    peers = {"pecos": "fails.py", "vw-plt": "sleeps.py"}
    commands = {name: [sys.executable, str(folder / file)] for name, file in peers.items()}
    made = Plan(
        folder / "cells", folder / "environments", sets=("wordnet-hypernym",), entrants=(*OURS, "pecos"),
        cap_seconds=600.0, threads=1, n_train=400, n_test=60, commands=commands,
    )  # fmt: skip
    run_race(made, lambda line: None)
    late = dataclasses.replace(made, entrants=("vw-plt",), cap_seconds=1.0)
    run_race(late, lambda line: None)
    return made


def cells_of(plan):
    return {cell["entrant"]: cell for cell in read_cells(plan.cells)}


def test_our_cells_hold_what_was_measured(plan):
    cells = cells_of(plan)
    for name in OURS:
        cell = cells[name]
        assert (cell["state"], cell["set"], cell["n_train"], cell["n_test"]) == ("done", "wordnet-hypernym", 400, 60)
        assert 0 <= cell["precision"]["1"] <= 1
        times = ("train_seconds", "predict_seconds", "predict_one_seconds", "predictor_seconds")
        assert min(cell[key] for key in times) > 0
        assert cell["n_trainings"] in (1, 3)
        assert cell["model_bytes"] >= cell["slim_bytes"] > 0
        assert (cell["settings"]["random_state"], cell["threads"], cell["sliced"]) == (0, 1, True)
        assert {"date", "commit", "machine", "python", "versions", "cap_seconds"} <= set(cell)
    assert len({cell["precision"]["1"] for cell in map(cells.get, OURS)} - {0.0}) > 1


def test_a_peer_that_fails_is_kept_with_its_reason(plan):
    assert (cells_of(plan)["pecos"]["state"], cells_of(plan)["pecos"]["reason"]) == ("failed", "no room in …")


def test_a_peer_that_is_late_is_kept_with_its_reason(plan):
    assert (cells_of(plan)["vw-plt"]["state"], cells_of(plan)["vw-plt"]["reason"]) == ("late", "not done in 1 s")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
def test_what_a_cell_started_is_ended_with_it():
    child = "import time; print('begun', flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, start_new_session=True)
    with process.stdout as told:
        assert told.readline() == b"begun\n"
        race_run._end(process)
        assert told.read() == b""  # comes to an end only when the child is gone too
    assert process.returncode == -9


def test_a_race_goes_on_where_it_was(plan, monkeypatch):
    ran = []
    monkeypatch.setattr(race_run, "run_capped", lambda request, *_: ran.append(request["entrant"]) or {"state": "late"})
    run_race(plan, lambda line: None)
    assert ran == []
    again = {
        "wordnet-hypernym/recall-tree": ["recall-tree"], "pecos": ["pecos"], "aloi": [],
        "wordnet-hypernym": [*OURS, "pecos"],
    }  # fmt: skip
    monkeypatch.setattr(race_run, "_write", lambda path, cell: None)
    monkeypatch.setattr(race_run, "line_of", str)
    for name, redone in again.items():
        ran.clear()
        run_race(dataclasses.replace(plan, again=[name]), lambda line: None)
        assert ran == redone, name


def test_a_cell_is_tried_again_where_that_may_help(tmp_path):
    one, entrant = SETS["clinc150"], ENTRANTS["vw-plt"]
    plan = Plan(tmp_path, tmp_path, cap_seconds=300.0)
    assert race_run._waits(plan, one, entrant)
    for state, cap, waits in (
        ("late", 120.0, True), ("late", 300.0, False), ("done", 120.0, False),
        ("failed", 120.0, False), ("not installed", 300.0, True),
    ):  # fmt: skip
        (tmp_path / "clinc150.vw-plt.json").write_text(json.dumps({"state": state, "cap_seconds": cap}))
        assert race_run._waits(plan, one, entrant) == waits, (state, cap)


def test_a_skipped_cell_is_tried_again_when_its_reason_is_gone(tmp_path):
    small, large = SETS["hierarchy-3000"], SETS["hierarchy-10000"]
    entrant = ENTRANTS["lom-tree"]
    late = {"state": "late", "reason": "not done in 120 s", "cap_seconds": 120.0, "n_classes": 3000}
    skipped = {"state": "skipped", "reason": "not done in 120 s, with 3,000 classes", "cap_seconds": 120.0}
    shorter, longer = (Plan(tmp_path, tmp_path, cap_seconds=cap) for cap in (120.0, 300.0))
    race_run._write(race_run._path(shorter, large, entrant), skipped)
    for before, waits in ((late, False), ({**late, "state": "done"}, True), ({**late, "reason": "no room"}, True)):
        race_run._write(race_run._path(shorter, small, entrant), before)
        assert race_run._waits(shorter, large, entrant) == waits
    race_run._write(race_run._path(shorter, small, entrant), late)
    assert race_run._waits(longer, small, entrant) and race_run._waits(longer, large, entrant)
    assert race_run._hopeless(longer, large, entrant) == ""


def test_an_old_result_stays_until_the_new_one_is_there(plan, monkeypatch):
    path = plan.cells / "wordnet-hypernym.recall-tree.json"
    kept = path.read_text()

    def gone(*_):
        raise SetUnavailable("not here")

    monkeypatch.setattr(race_run, "prepare", gone)
    run_race(dataclasses.replace(plan, again=["recall-tree"]), lambda line: None)
    assert path.read_text() == kept


def test_the_page_says_who_is_ahead_and_who_is_missing(plan, tmp_path):
    race_page.write_page(read_cells(plan.cells), tmp_path / "page.md", tmp_path / "figures")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "## WordNet" in text and "400 training and 60 test rows" in text and "**Small slices" in text
    assert "of 255 cells have not been run" in text
    assert "- PECOS XR-Linear: failed; no room in …" in text and "- VW plt: late; not done in 1 s" in text
    for name in OURS:
        assert f"| **{ENTRANTS[name].title}** | {100 * cells_of(plan)[name]['precision']['1']:.2f} |" in text
    assert "![Accuracy against training (s)](figures/accuracy_training.png)" in text
    for name in ("accuracy_training.png", "accuracy_one_row.png"):
        assert (tmp_path / "figures" / name).read_bytes().startswith(b"\x89PNG")


def made_up(entrant, share, seconds, size=10**6, **more):
    """A cell with the numbers that sentences are made from."""
    cell = {
        "set": "wordnet-hypernym", "entrant": entrant, "state": "done", "precision": dict.fromkeys("135", share),
        "train_seconds": seconds, "predict_seconds": seconds, "predict_one_seconds": seconds / 1e3,
        "predictor_seconds": None, "model_bytes": size,
        "slim_bytes": None, "peak_bytes": None, "loaded_bytes": None, "n_test": 1000, "version": "1", "note": "",
    }  # fmt: skip
    return {**cell, **more}


def test_sentences_name_the_peers_that_are_ahead():
    numbers = {"pecos": (0.6, 9.0), "label-tree": (0.5, 2.0), "vw-oaa": (0.4, 1.0), "vw-plt": (0.3, 5.0)}
    done = [made_up(name, *two) for name, two in numbers.items()]
    told = race_page.sentences(done)
    assert told[0] == (
        "Accuracy: our best, LabelTree (50.00 %), is behind the best peer that finished, PECOS XR-Linear "
        "(60.00 %), p < 0.0001."
    )
    assert told[1] == "Trains faster than LabelTree (2 s): VW oaa (1 s, 40.00 %)."
    assert told[3] == "Predicts one row faster than LabelTree (2,000 µs): VW oaa (1,000 µs, 40.00 %)."
    assert told[4] == "Has a lower peak memory than LabelTree (unknown): no peer."
    assert told[5] == "Has a smaller model than LabelTree (1.0 MB): no peer."
    assert told[6].endswith("in both accuracy and training time: PECOS XR-Linear, VW oaa.")
    assert race_page.sentences(done[::2]) == []
    ahead = race_page.sentences([made_up("label-tree", 0.7, 1.0), made_up("pecos", 0.6, 9.0)])
    assert "is ahead of" in ahead[0] and ahead[-1].endswith("prediction time: none.")


def test_the_summary_has_our_best_and_the_best_peer_of_a_set():
    names = {"label-tree": 0.5, "lom-tree": 0.4, "pecos": 0.3, "vw-oaa": 0.45}
    cells = [made_up(name, share, 2.0, n_classes=4796) for name, share in names.items()]
    late = {"set": "aloi", "entrant": "pecos", "state": "late"}
    lines = race_page.summary([*cells, late])
    assert len(lines) == 3
    sides = "LabelTree | 50.00 | 2.00 | 2,000 | VW oaa | 45.00 | 2.00 | 2,000"
    assert lines[2].startswith(f"| WordNet | 4,796 | {sides} | 0.0")
    assert race_page.summary(cells[:2]) == []


def test_sentences_are_fair():
    ours = made_up("label-tree", 0.50, 2.0, slim_bytes=10**5, peak_bytes=10**9)
    near = made_up("pecos", 0.51, 1.0, n_test=1000, peak_bytes=10**8)
    near["precision"]["3"] = 0.4
    told = race_page.sentences([near, ours], several=True)
    assert told[0].startswith("P@1: our best, LabelTree (50.00 %), is not significantly different from the best peer")
    assert told[1].startswith("P@3: our best, LabelTree (50.00 %), is ahead of") and "P@5" in told[2]
    assert told[6] == "Has a lower peak memory than LabelTree (1,000.0 MB): PECOS XR-Linear (100.0 MB, 51.00 %)."
    # Less time in all, because of fewer test rows, but not less per row.
    few = made_up("river-one-vs-rest", 0.5, 1.0, n_test=100)
    assert race_page.sentences([ours, few])[2].endswith("no peer.")
    # The call that is made for single rows counts.
    held = made_up("label-tree", 0.5, 2.0, predictor_seconds=1e-5)
    assert race_page.sentences([held, made_up("vw-oaa", 0.4, 1.0)])[3] == (
        "Predicts one row faster than LabelTree (10 µs): no peer."
    )
    assert "| 2,000 / 10 |" in race_page.table([held], several=False)[2]
    # Its file allows further training, so it is compared with our whole file.
    whole = made_up("vw-plt", 0.4, 9.0, size=5 * 10**5)
    smaller = "Has a smaller model than LabelTree (0.1 MB, 1.0 MB compared with Vowpal Wabbit): VW plt (0.5 MB"
    assert race_page.sentences([ours, whole])[5].startswith(smaller)
    assert race_page.sentences([ours, made_up("pecos", 0.4, 9.0, size=5 * 10**5)])[5].endswith("no peer.")


def test_tables_show_several_labels_and_fewer_rows():
    cells = [made_up("label-tree", 0.5, 2.0, slim_bytes=5 * 10**5), made_up("vw-plt", 0.25, 1.0, n_test=10, note="odd")]
    lines = race_page.table(cells, several=True)
    assert lines[0].startswith("| entrant | P@1 % | P@3 % | P@5 % | train s |")
    assert lines[2].startswith("| **LabelTree** | 50.00 | 50.00 | 50.00 | 2.00 | 2,000.0 | 2,000 | – | 1.0 / 0.5 |")
    assert lines[3].endswith("| odd; 10 test rows |") and "| VW plt 1 |" in lines[3]


def test_a_larger_set_is_not_tried_after_a_smaller_one_was_not_done(tmp_path):
    small, large = (SETS[f"hierarchy-{n}"] for n in SCALE[:2])
    plan = Plan(tmp_path, tmp_path)
    path = tmp_path / f"{small.name}.lom-tree.json"
    for state, found in (
        ("done", ""), ("not installed", ""), ("late", "why, with 7 classes"), ("failed", "why, with 7 classes"),
        ("skipped", "why"),
    ):  # fmt: skip
        path.write_text(json.dumps({"state": state, "reason": "why", "n_classes": 7, "cap_seconds": 300.0}))
        assert race_run._hopeless(plan, large, ENTRANTS["lom-tree"]) == found
    assert race_run._hopeless(plan, small, ENTRANTS["lom-tree"]) == ""


def test_an_installation_that_fails_is_tried_once(tmp_path, monkeypatch):
    tried = []

    def broken(folder, *installs, timeout):
        tried.append(folder.name)
        raise race_run.PeerUnavailable("pip failed with status 1:\nERROR: no wheel in /usr/lib/python3\n")

    monkeypatch.setattr(race_run, "peer_environment", broken)
    started = {}
    plan = Plan(tmp_path, tmp_path)
    told = {race_run._start(plan, ENTRANTS[name], started) for name in ("omikuji", "omikuji-bonsai")}
    assert (tried, told) == (["omikuji"], {"could not be installed: ERROR: no wheel in …"})


def test_a_failed_build_is_told_by_its_own_error():
    text = "pip failed:\n   error: failed to get `itertools`\n   Caused by:\n\nERROR: Could not build wheels"
    assert race_run._install_reason(text) == "error: failed to get `itertools`"
    assert race_run._install_reason("ERROR: no such package") == "ERROR: no such package"


def test_rows_are_shuffled_alike_and_travel(tmp_path):
    X = sp.csr_matrix(np.arange(1, 41, dtype=np.float32).reshape(20, 2))
    rows = (X, np.arange(20), X.toarray(), np.arange(20))
    once, twice = shuffled(rows, 10, 5), shuffled(rows, 10, 5)
    np.testing.assert_array_equal(once[1], twice[1])
    np.testing.assert_array_equal(once[0].toarray()[:, 0], 2 * once[1] + 1)
    np.testing.assert_array_equal(once[2][:, 0], 2 * once[3] + 1)
    assert once[0].shape == (10, 2) and once[2].shape == (5, 2) and list(once[1]) != sorted(once[1])
    cell_module.write_rows(tmp_path / "rows", once)
    again = cell_module.read_rows(tmp_path / "rows")
    np.testing.assert_array_equal(again[0].toarray(), once[0].toarray())
    for part in (1, 2, 3):
        np.testing.assert_array_equal(again[part], once[part])


def test_a_set_that_is_not_here_is_left_out(tmp_path, monkeypatch):
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    with pytest.raises(SetUnavailable, match="MANYCLASS_DATA"):
        prepare(SETS["aloi"])
    lines = []
    run_race(Plan(tmp_path, tmp_path, sets=("aloi",)), lines.append)
    assert len(lines) == 1 and lines[0].startswith("aloi: left out, ") and "manyclass data aloi" in lines[0]


def test_who_takes_which_set():
    takers = {name: {entrant.name for entrant in ENTRANTS.values() if entrant.takes(one)} for name, one in SETS.items()}
    assert {"label-tree", "spectral-tree", "pecos", "vw-plt"} < takers["eurlex-4k"]
    assert not {"recall-tree", "vw-oaa", "fasttext-hs"} & takers["eurlex-4k"]
    assert "fasttext-hs" in takers["clinc150"] and "fasttext-hs" not in takers["aloi"]


def test_settings_follow_the_size():
    facts = {"n_features": 128, "n_classes": 1000, "n_values": 3_000_000}
    assert settings_of(ENTRANTS["vw-oaa"], facts, 300.0)["bits"] == 18
    large = {"n_features": 46_921, "n_classes": 52_862, "n_values": 2_700_000}
    assert settings_of(ENTRANTS["vw-oaa"], large, 300.0)["bits"] == 28
    assert settings_of(ENTRANTS["vw-log-multi"], large, 300.0)["bits"] == 28
    assert settings_of(ENTRANTS["vw-log-multi"], {**large, "n_values": 20_000}, 300.0)["bits"] == 22
    assert settings_of(ENTRANTS["river-one-vs-rest"], facts, 300.0)["seconds"] == 75.0
    assert settings_of(ENTRANTS["recall-tree-one-path"], facts, 300.0) == {"random_state": 0, "beam": 1}


def test_each_entrant_looks_different():
    looks = [(style(name)["color"], style(name)["marker"]) for name in ENTRANTS]
    assert len(set(looks)) == len(looks)


def test_the_command_runs_our_side_only(tmp_path, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr("benchmarks.race_run.run_race", lambda plan, say: seen.append(plan))
    words = ["--quick", "--ours", "--sets", "wordnet-hypernym", "--folder", str(tmp_path)]
    assert main(words, tmp_path, tmp_path / "docs" / "race.md") == 0
    (plan,) = seen
    assert plan.cells == tmp_path / "quick" / "cells" and plan.sets == ["wordnet-hypernym"]
    assert plan.entrants and all(ENTRANTS[name].ours for name in plan.entrants)
    assert plan.cap_seconds + plan.end_seconds <= 300

    def stopped(plan, say):
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.race_run.run_race", stopped)
    assert main(["--again", "pecos"], tmp_path, tmp_path / "docs" / "race.md") == 130
    assert "without --again goes on from here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--again", "nonsense"], "--again nonsense: no set, entrant or set/entrant"),
        (["--again", "pecos/clinc150"], "--again pecos/clinc150: no set"),
        (["--again", "a/b/c"], "--again a/b/c: no set"),
        (["--again", "aloi", "--sets", "bibtex"], "--again aloi: not among what is run"),
        (["--cap", "-5"], "--cap must be more than 0 and finite, got -5"),
        (["--cap", "nan"], "--cap must be more than 0 and finite, got nan"),
        (["--threads", "0"], "--threads must be more than 0 and finite, got 0"),
        (["--memory-gb", "0"], "--memory-gb must be more than 0 and finite, got 0"),
        (["--memory-gb", "inf"], "--memory-gb must be more than 0 and finite, got inf"),
        (["--folder", __file__], "is a file; name a folder"),
        (["--ours", "--entrants", "pecos"], "--ours leaves out pecos: nothing to run"),
    ],
)
def test_options_that_cannot_be_are_refused(words, told, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words, tmp_path, tmp_path / "race.md")
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
