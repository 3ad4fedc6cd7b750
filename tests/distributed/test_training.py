"""Training on a Dask cluster: the same model as on one machine, also if workers die."""

import os
import signal
import time
from contextvars import Context

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client, wait

from benchmarks.dask.running import running
from manyclass import LabelTreeClassifier
from manyclass.core import prediction
from manyclass.distributed import DaskLabelTreeClassifier, estimator, read_files
from manyclass.distributed.checkpoints import remove_stored, stored
from manyclass.distributed.cluster import Cluster
from manyclass.distributed.rows import edges_of
from manyclass.io import DataError
from manyclass.label_tree.parts import ALIGNED
from tests.distributed.conftest import N_LABELS
from tests.distributed.partitions import N_ROWS, cut, file_of

OPTIONS = {"random_state": 0, "n_epochs": 3, "beam": 3}


@pytest.fixture(scope="module")
def whole(text):
    return file_of(LabelTreeClassifier(**OPTIONS).fit(*text))


def until(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("the cluster does not change")


def test_any_number_of_workers_gives_the_same_bytes(cluster, client, text, whole):
    for n_workers in (4, 2, 1):
        cluster.scale(n_workers)
        until(lambda n=n_workers: len(client.nthreads()) == n)
        model = DaskLabelTreeClassifier(client, **OPTIONS).fit(*map(cut, text))
        assert file_of(model.to_local()) == whole


def test_a_killed_worker_changes_nothing(cluster, client, text, whole, monkeypatch):
    cluster.scale(2)
    client.wait_for_workers(2)
    killed, plain = [], Cluster.chunks

    def kill_and_train(self, *arguments):
        holder = max(client.has_what().items(), key=lambda item: len(item[1]))[0]
        pids = {nanny.worker_address: nanny.pid for nanny in cluster.workers.values()}
        os.kill(pids[holder], signal.SIGKILL)
        killed.append(holder)
        return plain(self, *arguments)

    monkeypatch.setattr(Cluster, "chunks", kill_and_train)
    model = DaskLabelTreeClassifier(client, **OPTIONS).fit(*map(cut, text))
    assert len(killed) == 2  # before the routers and before the leaves
    assert file_of(model.to_local()) == whole


def test_fit_continues_after_the_scheduler_has_ended(text, whole, monkeypatch, tmp_path):
    plain = Cluster.chunks

    def train_and_end(self, *arguments):
        found = plain(self, *arguments)
        wait(found)
        self.client.cluster.close()
        return found

    parts = list(map(cut, text))
    with running(1) as (_, client), monkeypatch.context() as patch:
        patch.setattr(Cluster, "chunks", train_and_end)  # after the routers
        with pytest.raises(ConnectionError, match="continues with what is in `checkpoint`"):
            DaskLabelTreeClassifier(client, checkpoint=tmp_path, **OPTIONS).fit(*parts)
    before = {path: path.stat() for path in tmp_path.iterdir()}
    damaged = next(iter(before))
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with running(1) as (_, client):
        with monkeypatch.context() as patch:
            patch.setattr(estimator, "remove_stored", lambda folder: None)
            model = DaskLabelTreeClassifier(client, checkpoint=tmp_path, **OPTIONS).fit(*parts)
        assert file_of(model.to_local()) == whole
        after = {path: path.stat() for path in tmp_path.iterdir()}
        assert len(after) > len(before) > 1
        assert [path for path in before if after[path].st_ino != before[path].st_ino] == [damaged]
        DaskLabelTreeClassifier(client, checkpoint=tmp_path, **OPTIONS).fit(*parts)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="is not a folder"):
        DaskLabelTreeClassifier(client, checkpoint=tmp_path / "none", random_state=0).fit(*parts)
    with pytest.raises(ValueError, match="an integer as random_state"):
        DaskLabelTreeClassifier(client, checkpoint=tmp_path).fit(*parts)


def test_results_that_cannot_be_stored(client, tmp_path):
    array = np.arange(3)
    assert stored(str(tmp_path), _twice, array, 1.0)[0].tolist() == [0, 2, 4]
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(TypeError, match="csr_array has no digest"):  # two matrices could get the same one
        stored(str(tmp_path), _twice, sp.csr_array(np.eye(2)), 1.0)
    with pytest.warns(UserWarning, match="could not be written"):  # from the worker
        found = client.submit(stored, str(tmp_path / "none"), _twice, array, 1.0).result()
    assert found[0].tolist() == [0, 2, 4]
    remove_stored(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_damaged_results_are_computed_again(tmp_path):
    array = np.arange(3)
    stored(str(tmp_path), _twice, array, 1.0)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1], whole + b"x",
                    *(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(len(whole)))):  # fmt: skip
        path.write_bytes(damaged)
        assert stored(str(tmp_path), _twice, array, 1.0)[0].tolist() == [0, 2, 4]
        assert path.read_bytes() == whole


def test_whole_results_are_used(tmp_path):
    times = []

    def counted(array):
        times.append(1)
        return array, np.ones(2)

    first, again = (stored(str(tmp_path), counted, np.arange(3)) for _ in range(2))
    assert len(times) == 1 and [part.tolist() for part in again] == [part.tolist() for part in first]


def _twice(array, _):
    return (2 * array,)


def test_an_error_ends_the_tasks_that_run(client, text, monkeypatch):
    """Also those whose futures are kept by the traceback."""

    def interrupted(self, *arguments):
        self.slow = self.each(time.sleep, [[5.0] * 200])
        raise KeyboardInterrupt

    monkeypatch.setattr(Cluster, "chunks", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        DaskLabelTreeClassifier(client, **OPTIONS).fit(*map(cut, text))
    until(lambda: not any(client.processing().values()))
    assert raised.traceback  # is here all the time


def test_new_options_leave_a_model_that_was_returned(client, text):
    model = DaskLabelTreeClassifier(client, **OPTIONS).fit(*map(cut, text))
    local = model.to_local()
    assert model.to_local() is local
    assert model.set_params(beam=5).to_local().beam == 5
    assert local.beam == 3
    assert file_of(model.set_params(beam=3).to_local()) == file_of(local)


def test_few_intermediate_results_at_a_time(client):
    run = Cluster(client)
    values = [run.call(time.sleep, 0.2) for _ in range(6)]
    run.wait_until_few_are_missing(values)
    assert all(value.done() for value in values[:-2])


def test_progress(client, text, capsys):
    DaskLabelTreeClassifier(client, verbose=1, **OPTIONS).fit(*map(cut, text))
    lines = [line for line in capsys.readouterr().err.splitlines() if "over the nodes" in line]
    done, n_chunks = lines[-1].split()[6].split("/")
    assert len(lines) >= 2 and done == n_chunks and int(n_chunks) > 4  # routers and leaves


def test_dense_rows_with_nearest_rows(client):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 40, N_ROWS)
    X = rng.standard_normal((80, 6))[2 * y + rng.integers(0, 2, N_ROWS)] * 3 + rng.standard_normal((N_ROWS, 6))
    X, weights = X.astype(np.float32), rng.integers(0, 3, N_ROWS)  # rows of weight 0 are left out
    local = LabelTreeClassifier(**OPTIONS, class_weight="balanced").fit(X, y, weights)
    assert "neighbors" in local._state
    arrays = (da.from_array(array, chunks=(1300, *array.shape[1:])) for array in (X, y, weights))
    model = DaskLabelTreeClassifier(client, **OPTIONS, class_weight="balanced").fit(*arrays)
    assert file_of(model.to_local()) == file_of(local)
    rows = da.from_array(X[:1000], chunks=(300, 6))
    np.testing.assert_array_equal(model.predict(rows).compute(), local.predict(X[:1000]))
    for one, same in zip(model.predict_topk(rows, 3), local.predict_topk(X[:1000], 3), strict=True):
        np.testing.assert_array_equal(one.compute(), same)


def test_files_with_several_labels_per_row(client, tmp_path):
    rng = np.random.default_rng(1)
    X = sp.random_array((500, 300), density=0.02, rng=rng, format="csr", dtype=np.float32)
    Y = sp.csr_array(rng.random((500, 30)) < 0.06)
    paths = []
    for number, rows in enumerate((range(0, 200), range(200, 500))):
        lines = [f"{len(rows)} 300 30"]
        for i in rows:
            features = " ".join(f"{f}:{v!r}" for f, v in zip(X[[i]].indices, X[[i]].data.tolist(), strict=True))
            lines.append(",".join(map(str, Y[[i]].indices)) + " " + features)
        paths.append(tmp_path / f"{number}.xmc.txt")
        paths[-1].write_text("\n".join(lines) + "\n")
    model = DaskLabelTreeClassifier(client, **OPTIONS).fit(read_files(paths)).to_local()
    assert file_of(model) == file_of(LabelTreeClassifier(**OPTIONS).fit(X, Y.astype(np.int8)))


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [("1 9 5", "4 8:1", "1 values have indices beyond the 4"), ("1 4 9", "8 3:1", "label 8 is beyond the 5 labels")],
)
def test_a_file_that_has_more_than_the_first(tmp_path, header, row, message):
    paths = [tmp_path / name for name in ("a.xmc", "b.xmc")]
    for path, lines in zip(paths, ("1 4 5\n1,3 0:1 3:2\n", f"{header}\n{row}\n"), strict=True):
        path.write_text(lines)
    first, second = read_files(paths[0])[0], read_files(paths)[1]
    assert first.compute(scheduler="synchronous")[0].shape == (1, 4)
    with pytest.raises(DataError, match=rf"b\.xmc.*{message}"):
        second.compute(scheduler="synchronous")


def test_something_else_than_a_client(cluster, text):
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got LocalCluster"):
        DaskLabelTreeClassifier(cluster).fit(*map(cut, text))


def test_a_client_that_is_not_the_default(cluster, text, whole, monkeypatch):
    monkeypatch.setattr("distributed.client._global_clients", {})  # without the client of the other tests
    other = Client(cluster, set_as_default=False)
    try:
        model = Context().run(DaskLabelTreeClassifier(other, **OPTIONS).fit, *map(cut, text))
        assert file_of(model.to_local()) == whole
    finally:
        other.close()


def test_threshold_is_learned_from_the_same_rows(client, text, monkeypatch):
    monkeypatch.setattr(prediction, "BLOCK", 100)  # several blocks of held-out rows
    X, rng = text[0], np.random.default_rng(2)
    labels = np.unique(text[1], return_inverse=True)[1]
    places = np.repeat(np.arange(N_ROWS), 2), np.stack([labels, 7 * labels % N_LABELS], axis=1).ravel()
    Y = sp.csr_array((np.ones(2 * N_ROWS, bool), places), shape=(N_ROWS, N_LABELS))
    weights = rng.integers(0, 3, N_ROWS).astype(float)  # rows of weight 0 are left out
    local = LabelTreeClassifier(**OPTIONS).fit(X, Y, weights)
    assert local.threshold_ != LabelTreeClassifier(**OPTIONS, threshold=0.5).fit(X, Y, weights).threshold_
    model = DaskLabelTreeClassifier(client, **OPTIONS).fit(*map(cut, (X, Y, weights))).to_local()
    assert model.threshold_ == local.threshold_
    assert file_of(model) == file_of(local)


def test_too_few_rows_for_a_threshold(client):
    X, Y = np.random.default_rng(3).random((150, 5)), np.tile(np.eye(3, dtype=int), (50, 1))
    model = DaskLabelTreeClassifier(client, **OPTIONS).fit([X[:70], X[70:]], [Y[:70], Y[70:]]).to_local()
    assert model.threshold_ == 0.5
    assert file_of(model) == file_of(LabelTreeClassifier(**OPTIONS).fit(X, Y))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([np.ones((3, 2)), np.ones((3, 4))], [[1, 2, 3]] * 2, "different features: 2 in partition 0, 4 in partition 1"),
        ([np.ones((3, 2)), np.full((3, 2), np.nan)], [[1, 2, 3]] * 2, "partition 1: Input X contains NaN"),
        ([np.ones((3, 2))] * 2, [[1, 2, 3]], "X has 2 partitions but y has 1"),
        ([np.ones((3, 2))] * 2, [[1, 1, 1]] * 2, "at least two classes"),
        ([np.empty((0, 2))] * 2, [[]] * 2, "no rows in any partition"),
        ([np.ones((3, 2))], None, "partition 0 has no labels"),
    ],
)
def test_bad_input(client, X, y, message):
    with pytest.raises(ValueError, match=message):
        DaskLabelTreeClassifier(client, random_state=0).fit(X, y)


def test_data_in_memory_and_blocks_of_columns_are_refused(client):
    model = DaskLabelTreeClassifier(client)
    with pytest.raises(TypeError, match="X must be a Dask array"):
        model.fit(np.ones((3, 2)), np.arange(3))
    with pytest.raises(ValueError, match="blocks of columns"):
        model.fit(da.ones((4, 4), chunks=(2, 2)), da.ones(4, chunks=2))


def test_parts_begin_at_multiples_of_the_block():
    for n_rows, n_parts in ((30, 4), (3 * ALIGNED, 3), (50_000, 8), (2 * ALIGNED + 1, 100)):
        edges = edges_of(n_rows, n_parts)
        assert edges[0] == 0 and edges[-1] == n_rows
        assert all(edge % ALIGNED == 0 for edge in edges[:-1])
        assert np.diff(edges).min() > 0 and len(edges) <= n_parts + 1
        assert np.diff(edges).max() <= n_rows / n_parts + ALIGNED
