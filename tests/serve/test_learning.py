"""Rows that were acknowledged are learned once, whatever happens, and the model does not depend on how."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import LabelTreeClassifier, ModelFormatError, load_model
from manyclass.serve.journal import Journal, JournalFull, KeyReused
from manyclass.serve.model import CannotLearn, ServedModel
from manyclass.serve.rows import Learned
from tests.serve.tiny import texts, train_model


def learn(model: ServedModel, rows, key=None):
    return model.add(model.check([(text, [label]) for text, label in rows]), key).result(30)


def state(model: ServedModel) -> bytes:
    """The bytes of the model when the journal is learned and saved."""
    model.stop()
    return (model.state / f"{model.version}.model").read_bytes()


def rows_with_news(n: int, seed: int = 1):
    """Rows with new labels and new words among the known ones."""
    rows = texts(n, seed)
    news = [(f"{text} extra{i % 7}", f"new {i % 3}") for i, (text, _) in enumerate(rows)]
    return [news[i] if i % 4 == 0 else row for i, row in enumerate(rows)]


def test_the_same_bytes_for_any_grouping(served):
    rows = rows_with_news(100)  # more than 64 texts at once are read in another way
    one, many, halves = served("one"), served("many", start=False), served("halves", start=False)
    for row in rows:
        seq = learn(one, [row]).seq
        one.when_learned(seq).result(60)
    learn(many, rows)
    many.start()
    for row in rows[:30]:
        learn(halves, [row])
    halves.start()
    halves.when_learned(30).result(60)
    halves.save_now().result(60)  # a checkpoint in between: the rest is learned by the saved model
    halves.stop()
    again = served("halves")
    learn(again, rows[30:])
    assert state(one) == state(many) == state(again)


def test_replay_after_a_crash_gives_the_same_bytes(served, tmp_path):
    rows = rows_with_news(40)
    undisturbed = served("a")
    for row in rows:
        learn(undisturbed, [row])
    crashed = served("b", start=False)
    for row in rows:
        learn(crashed, [row])
    crashed.journal.close()  # nothing was learned, nothing saved: what a kill leaves
    crashed.stopped = True
    replayed = served("b")
    assert replayed.applied == 40
    assert state(undisturbed) == state(replayed)


KILLED = """
import sys
from pathlib import Path
from manyclass.serve.model import ServedModel, Settings
model = ServedModel("things", Path(sys.argv[1]), Path(sys.argv[2]), Settings(publish_every=0, checkpoint_rows=7))
model.start()
for i in range(10**6):
    word = "dog" if i % 2 else f"novel{i % 5}"
    model.add(model.check([(f"{word} cat", ["animal" if i % 2 else "new"])]), str(i)).result()
    print(i, flush=True)
"""


def test_kill_9_loses_nothing_and_learns_nothing_twice(model_file, served, tmp_path):
    folder, n = tmp_path / "killed", 0
    command = [sys.executable, "-c", KILLED, str(model_file), str(folder)]
    for stop_after in (3, 17):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                if int(line) >= n + stop_after:
                    break
            child.kill()
            acknowledged = [int(line), *map(int, child.stdout)]
        n = max(acknowledged) + 1  # the next child repeats the first ids: they are not learned again
    model = served("killed")
    written = model.journal.bounds()[1]
    assert n <= written <= n + 1, "an acknowledged row is missing, or one was written twice"
    reference = served("reference")
    for i in range(written):
        word = "dog" if i % 2 else f"novel{i % 5}"
        learn(reference, [(f"{word} cat", "animal" if i % 2 else "new")])
    assert state(model) == state(reference)


def test_a_retried_request_learns_once(served):
    model = served()
    first, second = learn(model, texts(2), "a key"), learn(model, texts(2), "a key")
    assert (first.duplicate, second.duplicate, first.seq) == (False, True, second.seq)
    model.when_learned(first.seq).result(30)
    model.save_now().result(30)
    assert learn(model, texts(2), "a key").duplicate, "a checkpoint forgets rows, not keys"
    with pytest.raises(KeyReused, match="'a key' was used before"):
        learn(model, texts(3), "a key")
    assert model.journal.bounds()[1] == 2


def test_a_checkpoint_truncates_the_journal(served):
    model = served()
    learn(model, texts(5))
    model.when_learned(5).result(30)
    model.save_now().result(30)
    assert model.journal.rows(0, 10) == []
    saved = load_model(model.state / "1.model")
    assert saved._extra["serving"] == {"applied": 5}
    with model.published() as copy:
        X = copy.own_features()([text for text, _ in texts(20, 3)])
        assert np.array_equal(saved.predict(X), copy.estimator.predict(X))


REQUESTS = """
import gc, json, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from manyclass.serve.model import ServedModel

def n_compiled():
    return sum(len(one.signatures) for one in gc.get_objects() if isinstance(one, Dispatcher))

model = ServedModel("things", Path(sys.argv[1]), Path(sys.argv[2]))
before = n_compiled()
for row in json.loads(sys.argv[3]):
    with model.published() as copy:
        copy.predict([row], 3), copy.predict([row] * 3, 3), copy.explain(row), copy.path(row)
    model.add(model.check([(row, json.loads(sys.argv[4]))]), None).result(30)
    model._learn_some()
assert model.n_learned == model.applied > 0 and len(model.recent.right) == model.applied, "learned at the first attempt"
print(before, n_compiled() - before)
"""


def n_compiled_late(path, state, rows, label) -> tuple[int, int]:
    """Kernels that a new process compiles or loads when it opens a model, and while it handles requests."""
    command = [sys.executable, "-c", REQUESTS, path, state, json.dumps(rows), json.dumps([label])]
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=True)
    before, late = map(int, done.stdout.split())
    return before, late


def test_no_request_waits_for_the_compiler(model_file, tmp_path):
    before, late = n_compiled_late(model_file, tmp_path / "state", ["dog cat horse"], "something new")
    assert before > 0 and late == 0


def test_no_request_with_numbers_waits_for_the_compiler(tmp_path):
    X = np.random.default_rng(0).random((60, 300), np.float32)  # more than 256 features: rows may be sparse or dense
    LabelTreeClassifier(neighbors=False).fit(sp.csr_array(X), np.arange(60) % 6).save(tmp_path / "numbers.model")
    rows = [X[0].tolist(), {"indices": [3, 7], "values": [1.0, 2.0]}]
    before, late = n_compiled_late(tmp_path / "numbers.model", tmp_path / "state", rows, 3)
    assert before > 0 and late == 0


def test_predictions_do_not_wait_for_learning(served, monkeypatch):
    """While one copy is in the middle of learning, the other one predicts as before."""
    model = served()
    text = "dog cat horse"
    with model.published() as copy:
        before = copy.predict([text], 3)
    inside, go_on, original = threading.Event(), threading.Event(), type(model._spare).learn

    def slow(self, *args):
        original(self, *args)
        inside.set()
        assert go_on.wait(30)

    monkeypatch.setattr(type(model._spare), "learn", slow)
    seq = learn(model, [(text, "something new")]).seq
    assert inside.wait(30)
    with model.published() as copy:
        assert copy.predict([text], 3) == before
    go_on.set()
    model.when_learned(seq).result(30)
    with model.published() as copy:
        assert copy.predict([text], 1)[0].labels == ["something new"]


def test_a_copy_in_use_does_not_change(served):
    model = served()
    with model.published() as copy:
        before = copy.predict(["dog"], 3)
        seq = learn(model, [("dog", "wolf")] * 5).seq
        model.when_learned(seq).result(30)
        assert copy.predict(["dog"], 3) == before
    with model.published() as copy:
        assert copy.predict(["dog"], 1)[0].labels == ["wolf"]


def test_new_words_are_learned(served):
    """A word that no training row had counts from the first row on that has it."""
    model = served()
    seq = learn(model, [("kubernetes", "software")] * 3).seq
    model.when_learned(seq).result(30)
    with model.published() as copy:
        assert copy.predict(["kubernetes"], 1)[0].labels == ["software"]


def test_a_row_that_cannot_be_learned_is_refused_once(served, monkeypatch):
    """Should a row pass the checks and fail all the same, the others are learned, also after a restart."""
    from manyclass.serve.rows import RequestLabels

    original = RequestLabels.array

    def array(self, rows):
        if ["poison"] in rows:
            raise RuntimeError("cannot be learned")
        return original(self, rows)

    monkeypatch.setattr(RequestLabels, "array", array)
    model, clean = served("bad", start=False), served("clean")
    learn(model, [("dog", "animal"), ("cat", "poison"), ("cow", "animal")])
    model.start()
    model.when_learned(3).result(60)
    assert (model.error, model.n_refused, model.applied) == ("", 1, 3)
    learn(clean, [("dog", "animal"), ("cow", "animal")])
    clean.when_learned(2).result(60)
    a, b = model._spare.trained.estimator, clean._spare.trained.estimator
    assert all(np.array_equal(x, y) for g in a._state for x, y in zip(a._state[g], b._state[g], strict=True))


def test_the_journal_refuses_when_the_disk_is_full(served, monkeypatch):
    model = served()
    learn(model, texts(1))
    model._probe_at = float("inf")  # or the service tries again by itself
    model.journal._writer.execute("PRAGMA max_page_count = 1")  # SQLite reports an error as if the disk were full
    with pytest.raises(JournalFull, match="full"):
        learn(model, [("x" * 20_000, "animal")])
    assert "full" in model.journal.error
    with model.published() as copy:
        assert copy.predict(["dog"], 1)[0].labels == ["animal"]
    learn(model, texts(1))  # after a failure the file is opened again, without the limit
    assert model.journal.error == "" and model.journal.bounds()[1] == 2


def test_a_new_model_file_is_a_new_version(served, tmp_path):
    first = train_model(tmp_path, "m.model", seed=0)
    model = served("v", path=first)
    learn(model, [("dog", "wolf")] * 3)
    model.when_learned(3).result(30)
    train_model(tmp_path, "m.model", seed=5)
    assert model.reload().result(60) == 2
    with model.published() as new, model.published(1) as old:
        assert new.predict(["dog"], 1)[0].labels == ["animal"]
        assert old.predict(["dog"], 1)[0].labels == ["wolf"]
    learn(model, [("bus", "lorry")] * 3)
    model.when_learned(6).result(30)
    assert model.restore(1).result(60) == 3
    with model.published() as copy:
        assert copy.predict(["dog"], 1)[0].labels == ["wolf"]
    model.stop()
    again = served("v", path=first)
    assert again.version == 3 and again.versions == [2, 3]
    with again.published(2) as copy:
        assert copy.predict(["bus"], 1)[0].labels == ["lorry"]


def test_a_model_file_may_be_written_in_place(served, tmp_path):
    """A mapped file that becomes shorter ends the process."""
    path = train_model(tmp_path, "m.model", seed=0)
    model = served("v", path=path)
    assert model.reload().result(60) == 2
    learn(model, texts(5))
    model.when_learned(5).result(30)
    path.write_bytes(b"")
    with model.published() as copy:
        assert copy.predict(["dog"], 1)[0].labels == ["animal"]
    model.save_now().result(60)
    with pytest.raises(ModelFormatError, match=r"m\.model: not a model file"):
        model.reload().result(60)
    assert model.version == 2 and not (tmp_path / "v" / "3.model").exists()


def test_two_processes_share_a_journal(served):
    """Both learn all rows; one of them saves."""
    a, b = served("shared"), served("shared")
    for row in rows_with_news(10):
        learn(a, [row])
        learn(b, [row])
    for model in (a, b):
        model.when_learned(20).result(30)
    x, y = a._live.trained.estimator, b._live.trained.estimator
    assert all(np.array_equal(p, q) for g in x._state for p, q in zip(x._state[g], y._state[g], strict=True))
    a.save_now().result(30)
    learn(b, texts(1))
    for model in (a, b):
        model.when_learned(21).result(30)
    assert [a._leads(), b._leads()] == [True, False]


def test_a_slim_model_only_predicts(served, model_file, tmp_path):
    load_model(model_file).save(tmp_path / "slim.model", slim=True)
    model = served("slim", path=tmp_path / "slim.model")
    with model.published() as copy:
        assert copy.predict(["dog"], 1)[0].labels == ["animal"]
    with pytest.raises(CannotLearn, match="only predicts"):
        learn(model, texts(1))


def test_the_model_file_is_not_changed(served, model_file):
    before = model_file.read_bytes()
    model = served()
    learn(model, texts(3))
    model.stop()
    assert model_file.read_bytes() == before


def test_the_journal_is_synchronous(tmp_path):
    journal = Journal(Path(tmp_path) / "j.sqlite")
    for connection in (journal._writer, journal._reader):
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    journal.close()
    assert os.path.exists(tmp_path / "j.sqlite")


def learn_in_two_groupings(served, path, rows):
    """Two services after the same rows: sent one by one, and all before the service starts."""
    one, many = served("one", path=path), served("many", path=path, start=False)
    for row in rows:
        one.when_learned(one.add(one.check([row]), None).result(30).seq).result(60)
    many.add(many.check(rows), None).result(30)
    many.start()
    many.when_learned(len(rows)).result(60)
    return one, many


def test_several_labels_per_row(served, tmp_path):
    """Labels are columns with names; new ones get new columns, in any grouping of the rows."""
    model_file = train_model(tmp_path, "tags.model", several=True)
    rows = [(text, [label, f"tag {i % 5}"]) for i, (text, label) in enumerate(texts(20, 3))]
    one, many = learn_in_two_groupings(served, model_file, rows)
    with many.published() as copy:
        found = copy.predict([rows[0][0]], 3)[0]
        assert set(found.labels) & {"tag 0", "tag 1", "tag 2", "tag 3", "tag 4"} and rows[0][1][0] in found.labels
        assert copy.labels.id(copy.trained, "tag 4") == len(copy.trained.names) - 1
    assert state(one) == state(many)


# -- copied files, several processes, errors ----------------------------------------------------------------------


def test_a_model_file_of_another_state_folder(served, tmp_path):
    """It names a row of another journal; a copy of it learns all rows of its own journal, also after a crash."""
    model = served("first")
    learn(model, texts(5))
    model.stop()
    (tmp_path / "copy.model").write_bytes((model.state / "1.model").read_bytes())
    second = served("second", path=tmp_path / "copy.model", start=False)
    learn(second, [("kubernetes", "software")] * 3)
    second.journal.close()  # what a kill leaves
    second.stopped = True
    second = served("second", path=tmp_path / "copy.model")
    learn(second, [("kubernetes", "software")] * 2)
    second.when_learned(5).result(30)
    assert second.n_learned == 5
    with second.published() as copy:
        assert copy.predict(["kubernetes"], 1)[0].labels == ["software"]
    second.stop()
    again = served("second", path=tmp_path / "copy.model")
    assert (again.applied, again.n_learned) == (5, 0)


def test_whoever_waits_no_longer_does_not_end_learning(served):
    model = served(start=False)
    seq = learn(model, texts(3)).seq
    waiting, job = model.when_learned(seq), model.save_now()
    assert not waiting.cancel() and not job.cancel() and not model.add(model.check([("dog", ["cat"])]), None).cancel()
    model.start()
    assert waiting.result(30) >= 3 and job.result(30) is None
    assert learn(model, texts(1)).seq == 5 and model.error == ""


def test_checkpoints_and_reloads_while_rows_keep_coming(served):
    model = served(checkpoint_rows=5)
    model.settings = replace(model.settings, publish_every=0.05)
    stop = threading.Event()

    def feed():
        while not stop.is_set():
            learn(model, texts(1))

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        assert model.reload().result(60) == 2
        for _ in range(3000):
            if model.saved > 10:
                break
            stop.wait(0.01)
    finally:
        stop.set()
        thread.join()
    assert model.saved > 10 and model.error == ""


def test_a_process_that_is_behind_does_not_overwrite_what_another_one_saved(served, tmp_path):
    ahead, behind = served("shared"), served("shared", start=False)
    learn(ahead, texts(20))
    ahead.when_learned(20).result(30)
    ahead.save_now().result(30)
    saved = (ahead.state / "1.model").read_bytes()
    with behind._own_files():
        behind._save()
    assert (ahead.state / "1.model").read_bytes() == saved and behind.saved == 0
    behind.start()
    learn(behind, texts(1))
    behind.when_learned(21).result(30)
    ahead.when_learned(21).result(30)
    for model in (ahead, behind):
        model._live.trained.save(str(tmp_path / f"{id(model)}.model"))
    assert (tmp_path / f"{id(ahead)}.model").read_bytes() == (tmp_path / f"{id(behind)}.model").read_bytes()


def test_all_processes_know_the_versions(served, tmp_path):
    path = train_model(tmp_path, "m.model")
    a, b = served("shared", path=path), served("shared", path=path)
    learn(a, [("dog", "wolf")] * 3)
    for model in (a, b):
        model.when_learned(3).result(30)
    assert b.reload().result(60) == 2  # also in a process that does not lead, what the old version has learned is kept
    learn(b, [("bus", "lorry")] * 3)
    a.when_learned(6).result(60)
    for model in (a, b):
        assert model.versions == [1, 2]
        with model.published(1) as old, model.published() as new:
            assert old.predict(["dog"], 1)[0].labels == ["wolf"] and old.predict(["dog"], 1)[0].version == 1
            assert new.predict(["bus"], 1)[0].labels == ["lorry"] and new.predict(["bus"], 1)[0].version == 2
    assert a.restore(1).result(60) == 3
    with a.published() as copy:
        assert copy.predict(["dog"], 1)[0].labels == ["wolf"]


def numbers_model(folder: Path, **options) -> Path:
    X, y = np.random.default_rng(0).standard_normal((80, 20)).astype(np.float32), np.arange(80) % 4
    X[np.arange(80), y] += 5
    LabelTreeClassifier(random_state=0, **options).fit(X, y - 2).save(folder / "numbers.model")
    return folder / "numbers.model"


def test_tiny_values_are_learned_in_any_grouping(served, tmp_path):
    """Estimators refuse a batch of nothing but tiny values; a row must not depend on those beside it."""
    path = numbers_model(tmp_path)
    rows = [([1e-35] + [0.0] * 19, [1]), ([0.0] * 19 + [9.0], [-2])]
    one, many = learn_in_two_groupings(served, path, rows)
    assert (one.n_refused, many.n_refused) == (0, 0)
    assert state(one) == state(many)


def test_a_bad_row_in_the_journal_does_not_prevent_the_start(served, tmp_path):
    path = numbers_model(tmp_path)
    model = served("state", path=path, start=False)
    good = model.check([([0.0] * 19 + [9.0], [7])])
    model.journal.add([*good, Learned(["not a number"] * 20, [1]).body(), *good]).result(30)
    model.journal.close()  # what a kill leaves
    model.stopped = True
    again = served("state", path=path)
    assert (again.applied, again.n_refused, again.n_learned, again.error) == (3, 1, 2, "")


def test_models_that_cannot_learn_still_predict(served, tmp_path):
    model = served("balanced", path=numbers_model(tmp_path, class_weight="balanced"))
    assert not model.learns
    with model.published() as copy:
        assert copy.predict([[9.0] + [0.0] * 19], 1)[0].labels == [-2]
    with pytest.raises(CannotLearn, match="class_weight"):
        model.check([([0.0] * 20, [1])])


def test_a_failed_checkpoint_is_not_repeated_at_once(served, monkeypatch):
    tries = []

    def save(*args):
        tries.append(args)
        raise OSError("no space")

    model = served(checkpoint_rows=1)
    monkeypatch.setattr(model._spare.trained, "save", save)
    monkeypatch.setattr(model._live.trained, "save", save)
    for _ in range(5):
        model.when_learned(learn(model, texts(1)).seq).result(30)
    for _ in range(3000):
        if model.unsaved:
            break
        time.sleep(0.01)
    assert len(tries) == 1 and model.unsaved == "no space" and model.error == ""


def test_an_error_of_the_journal_ends_when_it_can_be_written(served):
    model = served(start=False)
    model.journal.error = "database or disk is full"
    model.start()
    for _ in range(3000):
        if not model.journal.error:
            break
        time.sleep(0.01)
    assert model.journal.error == ""
    assert learn(model, texts(1)).seq == 1


def test_explanations_name_new_labels(served, tmp_path):
    model = served(path=train_model(tmp_path, "tags.model", several=True))
    for word in ("quasar", "pulsar"):
        seq = model.add(model.check([(f"{word} {word}", [f"about {word}"])] * 5), None).result(30).seq
        model.when_learned(seq).result(30)
    with model.published() as copy:
        assert copy.predict(["pulsar pulsar"], 1)[0].labels == ["about pulsar"]
        assert copy.explain("pulsar pulsar")["label"] == "about pulsar"


def test_a_failure_of_the_learner_ends_all_waiting(served, monkeypatch):
    model = served(start=False)
    waiting, job = model.when_learned(5), model.save_now()
    monkeypatch.setattr(model.journal, "rows", lambda *args: 1 / 0)
    model.start()
    for future in (waiting, job, model.when_learned(6), model.reload()):
        with pytest.raises(CannotLearn, match="ZeroDivisionError"):
            future.result(30)
