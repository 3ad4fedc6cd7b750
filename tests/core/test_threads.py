"""Predictions and saving while another thread trains: never a crash, never a mixture of two states."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from queue import SimpleQueue

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks.threads import Soak
from manyclass import (
    LabelTreeClassifier,
    ManyClassClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    interrupts,
    load_model,
)
from manyclass.core import locks
from manyclass.core.locks import ModelLock, parallel, reads, writes
from manyclass.core.steps import one_blas_thread
from manyclass.estimators import ESTIMATORS
from manyclass.interrupts import uninterrupted


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_prediction_is_that_of_a_state_between_two_calls(name, tmp_path):
    options = {} if name == "spectral-tree" else {"n_epochs": 1}
    soak = Soak(ESTIMATORS[name](random_state=0, **options), 0, tmp_path)
    soak.run(50 if hasattr(soak.model, "partial_fit") else 8)
    assert not soak.errors
    assert soak.wrong() == {}
    assert soak.counts["save"] > 0 and sum(soak.counts.values()) > 100


INTERRUPTED = """
import signal, sys
import numpy as np
from manyclass import RecallTreeClassifier, load_model

rng = np.random.default_rng(0)
X, y = rng.normal(size=(3000, 50)).astype(np.float32), np.sort(rng.integers(0, 400, 3000))
model = RecallTreeClassifier(n_jobs=2, random_state=0).partial_fit(X, y)
signal.signal(signal.SIGALRM, signal.default_int_handler)
n_interrupts = 0
for _ in range(40):
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-3, 0.02))
        while True:
            model.partial_fit(X, y)
    except KeyboardInterrupt:
        n_interrupts += 1
    model.save(sys.argv[1])
    load_model(sys.argv[1])
print(n_interrupts)
"""


def start(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def until(condition):
    """Wait for another thread."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("the other thread does not go on")


def assert_free(lock):
    assert not lock.readers and not lock.writers and not lock.waiting


def test_a_prediction_waits_for_training_and_training_for_predictions(monkeypatch):
    """Step by step, without luck: training stops in the middle, and a prediction must not be made meanwhile."""
    model = OneAgainstAllClassifier(random_state=0).fit([[0.0], [1.0]], ["a", "b"])
    half_way, go_on, order = threading.Event(), threading.Event(), []
    learn = OneAgainstAllClassifier._learn_batch

    def slowly(self, *args):
        half_way.set()
        assert go_on.wait(60)
        learn(self, *args)
        order.append("trained")

    monkeypatch.setattr(OneAgainstAllClassifier, "_learn_batch", slowly)
    trainer = start(lambda: model.partial_fit([[2.0]], ["c"]))
    assert half_way.wait(60)
    reader = start(lambda: order.append(len(model.classes_)))
    until(lambda: model._lock.waiting)  # the reader has come to the lock
    go_on.set()
    trainer.join(60)
    reader.join(60)
    assert order == ["trained", 3]


def test_predictions_go_on_during_fit(monkeypatch):
    """`fit` trains a new model beside the old one."""
    model = OneAgainstAllClassifier(random_state=0).fit([[0.0], [1.0]], ["a", "b"])
    half_way, go_on = threading.Event(), threading.Event()
    train = OneAgainstAllClassifier._train

    def slowly(self, *args):
        half_way.set()
        assert go_on.wait(60)
        train(self, *args)

    monkeypatch.setattr(OneAgainstAllClassifier, "_train", slowly)
    predict = model.predictor()
    trainer = start(lambda: model.fit([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [1, 2, 3]))
    assert half_way.wait(60)
    assert model.classes_.tolist() == ["a", "b"] and model.predict([[1.0]]).tolist() == ["b"]
    assert predict(np.ones(1, np.float32))[0] == "b"
    go_on.set()
    trainer.join(60)
    assert model.classes_.tolist() == [1, 2, 3] and model.n_features_in_ == 2
    assert predict(np.array([1.0, 0.0], np.float32))[0] == model.predict([[1.0, 0.0]])


def test_an_interrupted_fit_leaves_the_model_and_options_set_meanwhile(monkeypatch):
    model = RecallTreeClassifier(random_state=0, n_epochs=1).fit([[0.0], [1.0]], ["a", "b"])

    def interrupted(self, *args):
        model.set_params(beam=3)
        raise KeyboardInterrupt

    monkeypatch.setattr(RecallTreeClassifier, "_train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit([[0.0, 1.0]] * 2, [1, 2])
    assert model.n_features_in_ == 1 and model.classes_.tolist() == ["a", "b"] and model.beam == 3


def test_neither_side_waits_for_ever():
    """Readers that came during one write are let in before the next, and a writer before later readers."""
    lock, order = ModelLock(), []

    class Model:
        _lock = lock

        @reads
        def read(self, name, go_on=None):
            order.append(name)
            if go_on is not None:
                assert go_on.wait(60)

        write = writes(read.__wrapped__)

    first, second = threading.Event(), threading.Event()
    threads = [start(lambda: Model().read("reader 1", first))]
    until(lambda: order == ["reader 1"])
    threads.append(start(lambda: Model().write("writer 1", second)))
    until(lambda: len(lock.writers) == 1)
    threads.append(start(lambda: Model().read("reader 2")))
    until(lambda: len(lock.waiting) == 1)
    first.set()
    until(lambda: "writer 1" in order)
    threads.append(start(lambda: Model().write("writer 2")))
    until(lambda: len(lock.writers) == 2)
    second.set()
    for thread in threads:
        thread.join(60)
    assert order == ["reader 1", "writer 1", "reader 2", "writer 2"]
    assert_free(lock)


def test_a_writer_that_stops_waiting_lets_nobody_in(monkeypatch):
    """As Ctrl-C while `partial_fit` waits for another thread."""
    lock, order, go_on = ModelLock(), [], threading.Event()

    class Model:
        _lock = lock

        @reads
        def read(self):
            order.append("reader")

        @writes
        def write(self):
            order.append("writer")
            assert go_on.wait(60)
            order.append("end")

    def interrupted(bell):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.01)

    monkeypatch.setattr(locks, "_sleep", interrupted)
    threads = [start(Model().write)]
    until(lambda: order == ["writer"])
    threads.append(start(Model().read))
    until(lambda: len(lock.waiting) == 1)
    with pytest.raises(KeyboardInterrupt):
        Model().write()
    assert order == ["writer"] and len(lock.waiting) == 1
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert order == ["writer", "end", "reader"]


def test_methods_may_call_each_other_but_not_train():
    class Model(RecallTreeClassifier):
        @reads
        def read_and_train(self):
            assert len(self.classes_) == 2
            self.partial_fit([[0.0]], [0])

    model = Model(random_state=0, n_epochs=1).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(RuntimeError, match="inside one of its own methods"):
        model.read_and_train()
    assert_free(model._lock)
    model.partial_fit([[0.0]], [0])


def test_an_error_releases_the_lock():
    model = RecallTreeClassifier(random_state=0, n_epochs=1).fit([[0.0], [1.0]], [0, 1])
    for wrong in (lambda: model.predict([[1.0, 2.0]]), lambda: model.partial_fit([[1.0, 2.0]], [0])):
        with pytest.raises(ValueError, match="features"):
            wrong()
    assert_free(model._lock)


def test_copies_have_locks_of_their_own(tmp_path):
    model = RecallTreeClassifier(random_state=0, n_epochs=1).fit([[0.0], [1.0]], [0, 1])
    model.save(tmp_path / "model")
    others = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load_model(tmp_path / "model")]
    locks_of_all = {id(other._lock) for other in (model, clone(model), *others)}
    assert len(locks_of_all) == 6
    for other in others:
        assert other.predict([[1.0]]) == model.predict([[1.0]])


def test_a_lock_is_made_once():
    model, found = RecallTreeClassifier(), []
    threads = [start(lambda: found.append(model._lock)) for _ in range(8)]
    for thread in threads:
        thread.join(60)
    assert len({id(lock) for lock in found}) == 1
    assert "_lock" not in vars(RecallTreeClassifier())


def test_reading_takes_no_lock_without_a_writer(monkeypatch):
    """The cost of safety: predictions of single rows must not become slower."""
    model = RecallTreeClassifier(random_state=0, n_epochs=1).fit([[0.0], [1.0]], [0, 1])
    for name in ("wait_to_read", "wake"):
        monkeypatch.setattr(locks.ModelLock, name, lambda *args: pytest.fail("a lock was taken"))
    model.predict([[1.0]])
    model.predictor()(np.ones(1, np.float32))


def test_an_interrupt_waits_for_the_calls_that_run_and_begins_no_other():
    calls, begun, go_on = [], threading.Event(), threading.Event()

    def work(number):
        begun.set()
        assert go_on.wait(60)
        calls.append(number)

    def interrupt():
        begun.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        threading.Timer(0.05, go_on.set).start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in background jobs of a shell
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            parallel(work, range(50), n_jobs=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert 1 <= len(calls) <= 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
def test_an_interrupt_while_the_thread_starts_waits_for_it(kind, monkeypatch):
    calls, start = [], interrupts.start_new_thread

    def interrupted(*args):
        start(*args)
        raise kind

    def work(check):
        time.sleep(0.05)
        calls.append("before")
        check()
        calls.append("after")

    monkeypatch.setattr(interrupts, "start_new_thread", interrupted)
    with pytest.raises(kind):
        uninterrupted(work)
    assert calls in (["before"], [])
    time.sleep(0.1)
    assert calls in (["before"], [])


def test_a_thread_that_cannot_be_started(monkeypatch):
    def refuse(*args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(interrupts, "start_new_thread", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        uninterrupted(lambda check: None)


def test_interrupts_never_damage_a_model(tmp_path):
    """A program whose training is interrupted at 40 moments; after each, the model is saved and read."""
    program = tmp_path / "program.py"
    program.write_text(INTERRUPTED)
    done = subprocess.run([sys.executable, program, tmp_path / "m"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 30


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_while_another_thread_keeps_what_it_computed(duplicate):
    class Computes:
        def __deepcopy__(self, memo):
            model._known_nodes = None, None, None  # as `predict_path` does
            return None

    model = RecallTreeClassifier(random_state=0).partial_fit([[0.0], [1.0]], [0, 1])
    model._extra = {"computes": Computes()}
    assert "_known_nodes" not in vars(model)
    duplicate(model)
    assert "_known_nodes" in vars(model)


def test_parallel_calls_keep_their_order():
    assert parallel(divmod, range(20), [3] * 20, n_jobs=4) == [divmod(i, 3) for i in range(20)]
    with pytest.raises(ZeroDivisionError):
        parallel(divmod, range(20), [3] * 19 + [0], n_jobs=4)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_wait_for_the_end_of_training(duplicate):
    """A copy of arrays of different moments has indices beyond its arrays."""
    model = RecallTreeClassifier(random_state=0).partial_fit([[0.0], [1.0]], [0, 1])
    done, threads = [], []

    def train():
        threads.append(start(lambda: done.append(duplicate(model))))
        until(lambda: model._lock.waiting)
        assert not done
        model._state["seen"].n_rows[0] += 1

    model._learn_more(train)
    threads[0].join(60)
    assert done[0]._state["seen"].n_rows[0] == model._state["seen"].n_rows[0] == 3
    assert done[0]._lock is not model._lock


def test_a_pickle_has_arrays_of_its_own():
    model = RecallTreeClassifier(random_state=0).partial_fit([[0.0], [1.0]], [0, 1])
    assert model.__getstate__()["_state"]["seen"].n_rows is not model._state["seen"].n_rows


def test_training_a_copy_leaves_the_model_alone(many):
    X, y = many
    model = RecallTreeClassifier(random_state=0).partial_fit(X, y % 16)
    before = model.predict(X)
    copy.copy(model).partial_fit(X, y % 31)
    assert model._state["candidates"].label.max() < 16
    np.testing.assert_array_equal(model.predict(X), before)


def test_two_threads_with_the_first_rows_train_one_model(many):
    X, y = many
    for _ in range(5):
        model, gate = ManyClassClassifier(random_state=0), threading.Barrier(2)

        def learn(first, model=model, gate=gate):
            gate.wait()
            model.partial_fit(X[first::2], y[first::2])

        threads = [threading.Thread(target=learn, args=(first,)) for first in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert model.estimator_._state["seen"].n_rows[0] == len(y)


class Interrupts:
    """Raises KeyboardInterrupt at one of the moments at which Python runs signal handlers."""

    def __init__(self, moment):
        self.left = moment

    def __call__(self, frame, event, arg):
        if event in ("call", "c_return", "return"):
            self.left -= 1
            if not self.left:
                sys.setprofile(None)
                raise KeyboardInterrupt


def interrupted_at(moment, function):
    """Whether the call was interrupted: it may end before."""
    interrupts = Interrupts(moment)
    sys.setprofile(interrupts)
    try:
        function()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return interrupts.left <= 0


def named(columns):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(np.eye(len(columns), dtype=int), columns=list(columns))


CHANGES = {
    "fit": lambda model: model.fit(np.eye(3), ["x", "y", "z"]),
    "new label": lambda model: model.partial_fit(np.eye(3)[:1], ["d"]),
    "new column": lambda model: model.partial_fit(np.eye(4)[:, :3], named("abcd")),
    "add": lambda model: model.add_classes(["d", "e"]),
    "add to others": lambda model: model.remove_classes(["a"]).add_classes(["a", "d"]),
    "remove": lambda model: model.remove_classes(["a"]),
    "rename": lambda model: model.rename_classes({"a": "long name", "b": "a"}),
    "merge": lambda model: model.merge_classes({"a": "b"}),
    "calibrate": lambda model: model.calibrate(np.eye(3)[[0, 1, 2] * 10], TRUTH[model._names is not None]),
}
TRUTH = {False: list("abc") * 10, True: np.eye(3, dtype=int)[[0, 1, 2] * 10]}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # interrupts in generators that end
@pytest.mark.parametrize(
    ("change", "several"),
    [(change, False) for change in CHANGES if change != "new column"]
    + [(change, True) for change in CHANGES if change not in ("fit", "new label")],
)
def test_an_interrupt_at_any_moment_leaves_a_whole_model(change, several, tmp_path):
    """All or nothing has changed, and the lock is free."""
    first = LabelTreeClassifier(random_state=0).fit(np.eye(3), named("abc") if several else list("abc"))
    first.conformal(np.eye(3)[[0, 1, 2] * 10], TRUTH[several])

    def facts(model):
        model = copy.deepcopy(model)
        names, groups = model._names, sorted({"calibration", "conformal"} & set(model._state))
        return names, model.classes_.tolist(), model.removed_classes_, groups, getattr(model, "_threshold", None)

    model = copy.deepcopy(first)
    CHANGES[change](model)
    allowed = [facts(first), facts(model)]
    if change == "add to others":
        allowed.append(facts(copy.deepcopy(first).remove_classes(["a"])))
    counted = Interrupts(0)
    sys.setprofile(counted)
    CHANGES[change](copy.deepcopy(first))
    sys.setprofile(None)
    seen = set()
    n = -counted.left
    for moment in sorted({*range(1, n, max(1, n // 60)), *range(max(1, n - 20), n)}):
        model = copy.deepcopy(first)
        interrupted_at(moment, lambda model=model: CHANGES[change](model))
        assert_free(model._lock)
        assert facts(model) in allowed
        seen.add(allowed.index(facts(model)))
        model.save(tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        np.testing.assert_array_equal(loaded.predict(np.eye(3)), model.predict(np.eye(3)))
    assert len(seen) >= 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_of_a_prediction_leaves_the_lock_free():
    model = LabelTreeClassifier(random_state=0).fit(np.eye(3), list("abc"))
    model.predict(np.eye(3))
    moment = 1
    while interrupted_at(moment, lambda: model.predict(np.eye(3))):
        assert_free(model._lock)
        moment += 1
    assert moment > 20


def test_many_interrupts_while_a_thread_works():
    """Signals that come again every 0.1 ms: the call ends when its thread has ended, not before.

    A known limit: with signals every 30 microseconds on a busy machine, the call sometimes ends first.
    """
    running = []

    def work(check):
        running.append(True)
        time.sleep(0.02)
        running.clear()

    usual = signal.signal(signal.SIGALRM, signal.default_int_handler)
    n_early = n_interrupted = 0
    try:
        for _ in range(20):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.002, 1e-4)
                    uninterrupted(work)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                n_early += len(running)
                n_interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
    assert n_early == 0 and n_interrupted > 0


class Pair:
    """A model with one method that reads and one that writes."""

    def __init__(self):
        self._lock, self.inside, self.go_on = ModelLock(), threading.Event(), threading.Event()

    @reads
    def read(self):
        return "read"

    @writes
    def write(self):
        self.inside.set()
        assert self.go_on.wait(60)


@pytest.mark.parametrize("what", ["SimpleQueue", "_sleep", "ModelLock.wake", "ModelLock.check_not_lost"])
@pytest.mark.parametrize("method", ["read", "write"])
def test_an_interrupt_of_a_thread_that_waits(what, method, monkeypatch):
    model = Pair()
    thread = start(model.write)
    assert model.inside.wait(60)
    usual = locks
    for name in what.split("."):
        owner, usual = usual, getattr(usual, name)

    def interrupted(*args):
        if threading.current_thread() is threading.main_thread():
            monkeypatch.setattr(owner, name, usual)
            raise KeyboardInterrupt
        return usual(*args)

    if (what, method) == ("ModelLock.wake", "write"):
        model.go_on.set()  # it wakes others at its end
        thread.join(60)
        model._lock.bells[0] = SimpleQueue()
    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(model, method)()
    model._lock.bells.pop(0, None)
    model.go_on.set()
    thread.join(60)
    assert_free(model._lock)
    assert not model._lock.bells
    model.write()
    assert model.read() == "read"


@pytest.mark.parametrize("method", ["read", "write"])
def test_a_signal_handler_that_uses_a_model_that_its_thread_waits_for(method, monkeypatch):
    model = Pair()
    thread = start(model.write)
    assert model.inside.wait(60)
    monkeypatch.setattr(locks, "_sleep", lambda bell: getattr(model, method)())  # as a handler would
    for waiting in (model.read, model.write):
        with pytest.raises(RuntimeError, match=r"its thread waits for|inside one of its own methods"):
            waiting()
    model.go_on.set()
    thread.join(60)
    assert_free(model._lock)
    model._lock.writers[threading.get_ident()] = True  # it has announced itself, and does not wait yet
    with pytest.raises(RuntimeError, match=r"its thread waits for|inside one of its own methods"):
        getattr(model, method)()
    assert list(model._lock.writers) == [threading.get_ident()] and not model._lock.readers


def test_arguments_are_freed_without_the_garbage_collector():
    rows = [np.arange(3)]
    reference = weakref.ref(rows[0])
    gc.disable()
    try:
        uninterrupted(lambda check, array=rows[0]: array.sum())
        rows.clear()
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="requires fork")
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_that_is_forked_while_another_thread_uses_the_model(trains):
    model = OneAgainstAllClassifier(random_state=0).partial_fit([[0.0], [1.0]], ["a", "b"])
    model.predict([[1.0]])
    inside, go_on = threading.Event(), threading.Event()

    def stay():
        inside.set()
        assert go_on.wait(60)

    thread = start(lambda: model._learn_more(stay) if trains else reads(lambda self: stay())(model))
    assert inside.wait(60)
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            if os.fork():  # a process of this process
                os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
            model.predict([[1.0]])
            model.partial_fit([[2.0]], ["c"])
            os._exit(0 if len(model.classes_) == 3 else 1)
        except RuntimeError as error:
            os._exit(7 if "forked while another thread changed the model" in str(error) else 2)
        finally:
            os._exit(3)
    go_on.set()
    thread.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (7 if trains else 0)
    assert_free(model._lock)


def test_a_signal_handler_cannot_save_a_model_while_another_thread_trains_it(tmp_path):
    """The call waits for a thread of its own; the file would be a mixture."""
    model = RecallTreeClassifier(random_state=0).partial_fit([[0.0], [1.0]], [0, 1])
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    done = []

    def work(check):
        time.sleep(0.3)
        done.append(True)

    usual = signal.signal(signal.SIGALRM, lambda *args: model.save(tmp_path / "m"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(RuntimeError, match="signal handler cannot use a model while the model is trained"):
            model._learn_more(lambda: uninterrupted(work))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
    assert done
    assert (tmp_path / "m").read_bytes() == before
    model.save(tmp_path / "m")


def test_fit_replaces_a_model_that_another_thread_trains(many):
    X, y = many
    model, inside, go_on = ManyClassClassifier(random_state=0).partial_fit(X, y), threading.Event(), threading.Event()
    learn = model.estimator_._learn_more

    def slowly(train):
        inside.set()
        assert go_on.wait(60)
        return learn(train)

    model.estimator_._learn_more = slowly
    thread = start(lambda: model.partial_fit(X, y))
    assert inside.wait(60)
    model.fit([[0.0], [1.0]], ["a", "b"])
    go_on.set()
    thread.join(60)
    assert model.classes_.tolist() == ["a", "b"]


def test_a_copy_of_a_predictor_has_its_own_model_and_memory(many, tmp_path):
    X, y = many
    RecallTreeClassifier(random_state=0).fit(X, y).save(tmp_path / "m")
    model = load_model(tmp_path / "m")
    predict = model.predictor()
    other = copy.deepcopy(predict)
    before = other(X[0])[1].copy()
    model.partial_fit(X, y)
    assert predict(X[0])[1].tolist() == model.predict_topk(X[:1], 1)[1][0].tolist() != before.tolist()
    assert other(X[0])[1].tolist() == before.tolist()


def test_an_interrupt_that_keeps_the_limit_of_threads(monkeypatch):
    """The next call removes it."""

    def n_threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    def interrupt(limits):
        raise KeyboardInterrupt

    with threadpool_limits(2, "blas"):
        usual = n_threads()
        with monkeypatch.context() as patch:
            patch.setattr(threadpool_limits, "restore_original_limits", interrupt)
            with pytest.raises(KeyboardInterrupt):
                one_blas_thread(n_threads)()
        assert one_blas_thread(n_threads)() == [1] * len(usual)
        assert n_threads() == usual


def test_linear_algebra_has_one_thread_in_any_thread():
    found = []

    @one_blas_thread
    def count():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(2, "blas"):
        usual = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        for _ in range(2):
            found.append(count())
            thread = start(lambda: found.append(count()))
            thread.join(60)
        assert [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"] == usual
    assert len(found) == 4
    assert all(n == 1 for one in found for n in one)
