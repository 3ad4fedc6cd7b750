"""`manyclass train`: training, checkpoints, interrupts and resuming."""

import gc
import io
import json
import os
import re
import signal
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import (
    LabelTreeClassifier,
    ManyClassClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    load_model,
)
from manyclass.cli import rows
from manyclass.cli import train as module
from manyclass.cli.files import only_writer
from manyclass.core.memory import LimitError, as_text, held_bytes
from manyclass.trained import open_model

SVM = ("train", "train.svm", "--features", "64", "--algorithm", "recall-tree", "--model", "m")


def test_training_from_a_file_is_partial_fit_over_its_rows(call, digits, tmp_path):
    X, y = digits
    done = call(*SVM, "--no-shuffle", "--epochs", "1", "--test", "test.svm", "--json")
    assert done.code == 0
    clf = RecallTreeClassifier(random_state=0, table_bits=24).partial_fit(sp.csr_array(X[:700]), y[:700])
    loaded = load_model("m")
    assert np.array_equal(loaded.predict(X), clf.predict(X))
    result = json.loads(done.out)
    assert result["examples"] == 700 and result["n_classes"] == 10 and result["n_features"] == 64
    assert result["test"]["accuracy"] == clf.score(X[700:900], y[700:900])
    assert result["bytes"] == os.path.getsize("m")
    assert done.err.startswith("svmlight, one label per row\n")
    assert "\ntraining a recall-tree, 64 features, row by row\n" in done.err


@pytest.mark.parametrize(
    ("words", "algorithm", "n_features"),
    [
        ((), "label-tree", 64),
        (("--epochs", 1, "--online"), "recall-tree", 64),
        (("--epochs", 1, "--row-memory", "100kB"), "recall-tree", 64),
        (("--epochs", 1, "--row-memory", "100kB", "--features", 257), "label-tree", 257),
        (("--epochs", 1, "--in-memory"), "label-tree", 64),
    ],
)
def test_the_default_algorithm_is_that_of_the_front_door(call, digits, words, algorithm, n_features):
    X, y = digits
    found = json.loads(call("train", "train.svm", "--model", "m", "--json", *words).out)
    assert (found["algorithm"], found["n_features"]) == (algorithm, n_features)
    if not words:  # all rows at once, and as dense rows
        model = ManyClassClassifier(random_state=0).fit(X[:700], y[:700])
        np.testing.assert_array_equal(load_model("m").predict(X), model.predict(X))


def test_rows_beyond_the_memory_are_learned_at_once_from_a_temporary_file(call, digits):
    words = ("train", "train.svm", "--features", 300)
    assert "at once\n" in call(*words, "--model", "a").err
    assert "at once from a temporary file\n" in call(*words, "--model", "b", "--row-memory", "100kB").err
    calibrated = call(*words, "--model", "c", "--row-memory", "100kB", "--calibrate", "isotonic").err
    assert "are learned row by row" in calibrated and "use a larger --row-memory, or omit --calibrate." in calibrated
    a, b = (load_model(name)._state for name in "ab")
    for name in a:
        for field, group in a[name]._asdict().items():
            np.testing.assert_array_equal(group, getattr(b[name], field), f"{name}.{field}")


def test_a_resumed_run_keeps_the_default_algorithm(call, digits):
    words = ("train", "train.svm", "--epochs", 2, "--checkpoint-every", 200)
    assert call(*words, "--model", "whole").code == 0
    assert load_model("whole")._model.NAME == "recall-tree"
    open_model("whole")  # complete
    assert call(*words, "--model", "m").code == 0 and "nothing to do" in call(*words, "--model", "m", "--resume").err
    same = call(*words, "--model", "m", "--resume", "--algorithm", "recall-tree")
    assert same.code == 0 and "nothing to do" in same.err
    os.rename("m", "m.checkpoint")
    assert "(algorithm differ)" in call(*words, "--model", "m", "--resume", "--algorithm", "label-tree").err


def test_the_seed_determines_the_bytes(call, digits):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        assert call("train", "train.svm", "--features", 64, "--model", name, "--epochs", 2, "--seed", seed).code == 0
    a, b, c = (Path(name).read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize("algorithm", ["recall-tree", "label-tree", "one-against-all"])
def test_checkpoints_do_not_change_the_model(call, digits, algorithm, monkeypatch):
    monkeypatch.setattr(rows, "WINDOW", 256)
    words = ("train", "train.svm", "--features", 64, "--algorithm", algorithm, "--epochs", 2, "--online")
    assert call(*words, "--model", "whole").code == 0
    assert call(*words, "--model", "often", "--checkpoint-every", 97).code == 0
    assert Path("whole").read_bytes() == Path("often").read_bytes()
    assert not os.path.exists("often.checkpoint")


@pytest.mark.parametrize(
    ("after", "memory"),  # 100 kB are too few: the rows go through a temporary file
    [(n, "1GB") for n in (1, 97, 350, 700, 1000, 1385)] + [(97, "100kB"), (1000, "100kB")],
)
def test_a_resumed_run_results_in_the_same_bytes(call, digits, monkeypatch, after, memory):
    monkeypatch.setattr(rows, "WINDOW", 256)
    words = (*SVM, "--epochs", "2", "--checkpoint-every", "97", "--row-memory", memory)
    assert call(*words).code == 0
    whole = Path("m").read_bytes()
    os.unlink("m")
    learned = 0
    real = module._learn

    def killed(trained, chunk, columns):
        nonlocal learned
        if learned + chunk.X.shape[0] > after:
            raise RuntimeError("killed")
        learned += chunk.X.shape[0]
        real(trained, chunk, columns)

    monkeypatch.setattr(module, "_learn", killed)
    with pytest.raises(RuntimeError, match="killed"):
        call(*words)
    monkeypatch.setattr(module, "_learn", real)
    assert os.path.exists("m.checkpoint") == (after >= 97) and not os.path.exists("m")
    result = call(*words, "--resume")
    assert result.code == 0 and ("starting from scratch" in result.err) == (after < 97)
    assert Path("m").read_bytes() == whole
    assert not os.path.exists("m.checkpoint")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_a_checkpoint_and_prints_how_to_continue(call, digits, monkeypatch, number):
    before = signal.getsignal(signal.SIGINT)  # ignored, where the tests run in the background of a shell
    assert call(*SVM, "--epochs", "2").code == 0
    whole = Path("m").read_bytes()
    os.unlink("m")
    real, n = module._learn, 0

    def interrupted(*args):
        nonlocal n
        real(*args)
        n += 1
        if n == 2:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(module, "_learn", interrupted)
    monkeypatch.setattr(module, "_BATCH", 100)
    result = call(*SVM, "--epochs", "2")
    assert result.code == 130 and "Interrupted after 200 rows; saved m.checkpoint" in result.err
    command = "manyclass train train.svm --features 64 --algorithm recall-tree --model m --epochs 2 --resume"
    assert result.err.endswith(f"\n  {command}\n")
    assert not os.path.exists("m") and open_model("m.checkpoint").training["rows"] == 200
    monkeypatch.setattr(module, "_learn", real)
    assert call(*SVM, "--epochs", "2", "--resume").code == 0
    assert Path("m").read_bytes() == whole
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_between_two_epochs_records_each_epoch_once(call, digits, monkeypatch):
    words = (*SVM, "--epochs", "2")
    assert call(*words).code == 0
    whole = Path("m").read_bytes()
    os.unlink("m")
    real = module.Training._end_epoch

    class Interrupting(list):
        def append(self, error):
            super().append(error)
            os.kill(os.getpid(), signal.SIGINT)

    def end_epoch(self, *arguments):
        self.trained.training["held_out_errors"] = Interrupting(self.trained.training["held_out_errors"])
        real(self, *arguments)

    monkeypatch.setattr(module.Training, "_end_epoch", end_epoch)
    assert call(*words).code == 130
    record = open_model("m.checkpoint").training
    assert record["epochs"] == len(record["progressive_errors"]) == len(record["held_out_errors"]) == 1
    monkeypatch.setattr(module.Training, "_end_epoch", real)
    assert call(*words, "--resume").code == 0
    assert Path("m").read_bytes() == whole


def test_resume_runs_only_missing_epochs(call, digits):
    assert call(*SVM, "--epochs", "3").code == 0
    three = Path("m").read_bytes()
    result = call(*SVM, "--epochs", "3", "--resume", "--json")
    assert result.code == 0 and "nothing to do" in result.err and json.loads(result.out)["already_finished"]
    assert Path("m").read_bytes() == three
    os.unlink("m")
    assert call(*SVM, "--epochs", "2").code == 0
    assert call(*SVM, "--epochs", "3", "--resume").code == 0
    assert Path("m").read_bytes() == three


def test_a_checkpoint_of_another_run_is_rejected(call, digits):
    assert call(*SVM, "--epochs", "2").code == 0
    os.rename("m", "m.checkpoint")
    for words, what in (
        (("--seed", "5"), "seed"),
        (("--no-shuffle",), "shuffle"),
        (("--option", "beam=2"), "options"),
        (("--labels", "one"), "reading"),
        (("--algorithm", "one-against-all"), "algorithm"),
    ):
        result = call(*SVM, "--epochs", "2", "--resume", *words)
        assert result.code == 1 and f"from another run ({what} differ)" in result.err
    assert call(*SVM, "--epochs", "2", "--resume", "--skip-bad-lines").code == 0  # a bad line may require it
    with open("train.svm", "a") as file:
        file.write("3 1:2\n")
    result = call(*SVM, "--epochs", "2", "--resume")
    assert result.code == 1 and "(data differ)" in result.err
    os.rename("m.checkpoint", "m")
    result = call(*SVM, "--epochs", "2", "--resume", "--json")
    assert result.code == 0 and "starting from scratch" in result.err and json.loads(result.out)["examples"] == 2 * 701


@pytest.mark.parametrize("words", [(), ("--seed", "5"), ("--in-memory",), ("--checkpoint-every", "97")])
def test_a_checkpoint_is_kept_until_its_run_continues(call, digits, words):
    assert call(*SVM, "--epochs", "1").code == 0
    os.rename("m", "m.checkpoint")
    before = Path("m.checkpoint").read_bytes()
    result = call(*SVM, "--epochs", "1", *words)
    assert result.code == 1 and "add --resume to continue it, or delete the file to start from scratch" in result.err
    assert Path("m.checkpoint").read_bytes() == before and not os.path.exists("m")


def test_a_finished_run_that_replaced_its_start_is_recognised(call, digits):
    assert call(*SVM, "--epochs", "1").code == 0
    words = ("train", "test.svm", "--start-from", "m", "--model", "m", "--epochs", "1", "--resume")
    assert call(*words).code == 0
    done = Path("m").read_bytes()
    assert load_model("m")._state["seen"].n_rows[0] == 900
    result = call(*words)
    assert result.code == 0 and "m is complete (1 epochs): nothing to do" in result.err
    assert Path("m").read_bytes() == done
    result = call(*words, "--seed", "5")  # another run
    assert result.code == 0 and "(seed differ): starting from scratch" in result.err
    assert load_model("m")._state["seen"].n_rows[0] == 1100


def test_resume_evaluates_a_complete_model(call, digits):
    whole = json.loads(call(*SVM, "--epochs", "2", "--test", "test.svm", "--json").out)
    again = json.loads(call(*SVM, "--epochs", "2", "--test", "test.svm", "--json", "--resume").out)
    assert again["test"]["accuracy"] == whole["test"]["accuracy"]
    assert whole["progressive_error"] == whole["progressive_errors"][0] > whole["progressive_errors"][1]
    assert call(*SVM, "--epochs", "2", "--test", "test.svm", "--resume").out.startswith("accuracy")


def test_index_base_zero_is_used(call):
    Path("one.svm").write_text("1 1:1\n2 2:1\n")
    Path("zero.svm").write_text("1 0:1\n2 1:1\n")
    for base in (0, 1):
        assert call("train", "one.svm", "--model", "m", "--index-base", base, "--features", 3).code == 0
        assert open_model("m").reading.index_base == base
    result = call("predict", "m", "zero.svm")
    assert result.code == 1 and "line 1, column 3" in result.err and "--index-base 0" in result.err
    assert call("predict", "m", "zero.svm", "--index-base", 0).code == 0


def test_start_from_continues_with_other_data(call, digits):
    assert call(*SVM, "--epochs", "1").code == 0
    result = call("train", "test.svm", "--start-from", "m", "--model", "m2", "--epochs", "1", "--json")
    assert result.code == 0 and json.loads(result.out)["examples"] == 200
    assert load_model("m2")._state["seen"].n_rows[0] == 900
    assert load_model("m")._state["seen"].n_rows[0] == 700
    assert call("train", "test.svm", "--start-from", "m", "--algorithm", "label-tree", "--model", "x").code == 1


def test_standard_input_can_be_read_once(call, digits, monkeypatch):
    assert call(*SVM, "--epochs", "1").code == 0
    raw = Path("train.svm").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    words = ("train", "-", "--input-format", "svmlight", "--features", "64", "--model", "s")
    assert call(*words).code == 0
    X, _ = digits
    assert np.array_equal(load_model("s").predict(X), load_model("m").predict(X))
    assert "only once" in call(*words, "--epochs", "2").err
    assert "--test -: standard input has the training rows" in call(*words, "--test", "-").err


def test_a_pipe_is_read_completely(call, digits):
    assert call(*SVM, "--epochs", "1").code == 0
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("train.svm").read_bytes()))
    writer.start()
    result = call("train", "pipe", "--input-format", "svmlight", "--features", "64", "--model", "p", "--json")
    writer.join()
    assert json.loads(result.out)["examples"] == 700
    same = load_model("m")._state["scorer"].weight == load_model("p")._state["scorer"].weight
    assert same.all()


def test_an_interrupt_while_waiting_for_rows_of_a_pipe_saves_a_checkpoint(call, digits, monkeypatch):
    real = module.Source.chunks
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("train.svm").read_bytes())))

    def chunks(self, rows):
        yield from real(self, rows)
        os.kill(os.getpid(), signal.SIGINT)  # as if the next rows never came

    monkeypatch.setattr(module.Source, "chunks", chunks)
    result = call("train", "-", "--input-format", "svmlight", "--features", "64", "--model", "m")
    assert result.code == 130 and "Interrupted after 700 rows" in result.err
    assert open_model("m.checkpoint").training["rows"] == 700


def test_options_reach_the_estimator(call, digits):
    words = ("--option", "beam=3", "-o", "learner=sgd", "-o", "learner.rate=0.5", "-o", "loss=logistic")
    assert call(*SVM, "--epochs", 1, *words).code == 0
    clf = load_model("m")
    assert (clf.beam, clf.learner.rate, clf.loss) == (3, 0.5, "logistic")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--option", "beam"), "NAME=VALUE"),
        (("--option", "magic=1"), "Options of recall-tree:"),
        (("--option", "beam=0"), "beam must be"),
        (("--option", "beam=1", "--option", "beam=2"), "given twice"),
        (("--option", "learner=[1]", "--option", "learner.rate=1"), "learner=sgd"),
        (("--test", "nowhere.svm"), "nowhere.svm: No such file"),
        (("--option", "n_epochs=3"), "use --epochs"),
        (("--option", "learner.rate=1"), "learner=sgd"),
        (("--option", "learner=sgd", "-o", "learner.magic=1"), "magic"),
        (("--in-memory", "--checkpoint-every", "9"), "--in-memory trains on all rows at once"),
        (("--algorithm", "spectral-tree", "--online"), "spectral-tree trains on all rows at once"),
        (("--algorithm", "spectral-tree", "--row-memory", "1MB"), "spectral-tree holds all rows in memory: omit"),
        (("--label", "x"), "svmlight, where --label does not apply"),
        (("--in-memory", "--row-memory", "1GB"), "--in-memory holds all rows in memory, --row-memory limits them"),
        (("--max-memory", "1GB", "--row-memory", "2GB"), "--row-memory 2GB is more than --max-memory 1GB"),
        (("--max-memory", "1GB", "--online"), "--max-memory is for label trees that learn all rows at once"),
        (("--max-memory", "1GB"), "recall-tree has no limit of memory"),
        (("--option", "max_memory=8GB"), "use --max-memory"),
        (("--input-format", "vw", "--index-base", "1"), "where --index-base does not apply"),
    ],
)
def test_invalid_options_are_reported(call, digits, words, message):
    result = call(*SVM, *words)
    assert result.code == 1 and message in result.err and "Traceback" not in result.err
    assert not os.path.exists("m")


@pytest.mark.parametrize("size", ["8", "inf", "-1GB", "0GB", "much"])
def test_amounts_of_memory_have_a_unit(call, digits, size):
    for name in ("--max-memory", "--row-memory"):
        result = call(*SVM, name, size)
        assert result.code == 2 and f"{size!r} is not a size with a unit, such as 512MB or 8GB" in result.err


def test_the_memory_of_the_process_is_limited(call, digits):
    words = ("train", "train.svm", "--model", "m", "--epochs", "1", "--max-memory")
    few = "the rows take more than the 1MB of --row-memory, by default a quarter of --max-memory"
    assert few in call(*words, "8GB", "--row-memory", "1B").err
    assert not os.path.exists("m")
    for algorithm, end in (("recall-tree", "--row-memory limits what its rows take."), ("spectral-tree", "of memory.")):
        assert call(*words, "8GB", "--algorithm", algorithm).err.endswith(f"{end}\n")
    assert call(*words, "8GB").code == 0 and load_model("m").max_memory == "8GB"


@pytest.mark.parametrize("several", [(), ("--label-separator", ";")])
def test_the_limit_that_a_refusal_recommends_is_enough(call, tmp_path, several):
    rng = np.random.default_rng(0)
    labels = [f"t{i % 300};u{i % 7}" if several else f"t{i % 300}" for i in range(3000)]
    lines = [f"{labels[i]}\t{' '.join(f'w{j}' for j in rng.integers(0, 20_000, 200))}\n" for i in range(3000)]
    (tmp_path / "train.tsv").write_text("label\ttext\n" + "".join(lines))
    words = ("train", "train.tsv", "--label", "label", "--model", "m", "--epochs", "1", *several, "--max-memory")
    refused = call(*words, as_text(held_bytes() + 2e7)).err
    enough = re.search(r"To fit it: use --max-memory (\w+)\.$", refused)[1]  # there is no option for fewer rows
    with warnings.catch_warnings(record=True) as raised:
        result = call(*words, enough)
    assert result.code == 0 and not raised and "threshold" not in result.err
    assert not several or load_model("m").threshold_ != 0.5


@pytest.mark.skipif(not held_bytes(), reason="the system does not report the memory in use")
def test_a_limit_below_the_memory_in_use_is_refused_early(call, digits, monkeypatch):
    words = ("train", "train.svm", "--model", "m", "--max-memory")
    refused = call(*words, "1MB").err
    assert re.search(r"\d+MB are in use before a row is read, but --max-memory is 1MB: use a larger one\.$", refused)
    assert "m" not in os.listdir()
    held = iter([10**6, 10**9])
    monkeypatch.setattr(module, "held_bytes", lambda: next(held))
    refused = call(*words, "512MB").err
    assert re.search(r"1000MB are in use after [\d,]+ rows were read, but --max-memory is 512MB: .* a smaller", refused)


def test_why_the_threshold_is_not_learned_is_said_in_words_of_the_command(call, tmp_path, monkeypatch):
    lines = [f"t{i % 5};u{i % 3}\tx{i % 5} y{i % 3}\n" for i in range(600)]
    (tmp_path / "train.tsv").write_text("label\ttext\n" + "".join(lines))
    words = ("train", "train.tsv", "--label", "label", "--label-separator", ";", "--model", "m", "--epochs", "1")
    fit, errors = LabelTreeClassifier.fit, []

    def no_room(self, *args, **kwargs):
        if self.threshold == 0.5 and self.max_memory is not None:
            raise errors[-1]
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(LabelTreeClassifier, "fit", no_room)
    for error, advice in (
        (LimitError(9e9, 10**9, 8 * 10**9), "To learn it, use --max-memory 9180MB."),
        (MemoryError("stopped"), "To learn it, use --max-memory with a larger size."),
    ):
        errors.append(error)
        with warnings.catch_warnings(record=True) as raised:
            result = call(*words, "--max-memory", "8GB")
        assert result.code == 0 and not raised and "max_memory" not in result.err
        what = "manyclass: warning: the threshold of labels stays 0.5: there was too little memory to learn it within "
        assert f"{what}--max-memory 8GB. {advice}" in result.err
    monkeypatch.undo()
    assert "threshold" not in call(*words, "--max-memory", "8GB").err


def test_the_options_of_an_algorithm_are_listed(call):
    result = call(*SVM, "--algorithm", "label-tree", "-o", "help")
    assert result.code == 0 and "  arity=16  " in result.out and "  beam=" in result.out
    assert "max_memory" not in result.out and not os.path.exists("m")
    assert "  table_bits=24  " in call(*SVM, "--algorithm", "recall-tree", "-o", "help").out  # of the command line


def test_missing_and_empty_files_are_reported(call, digits, tmp_path):
    assert "none.svm: No such file" in call("train", "none.svm", "--model", "m").err
    (tmp_path / "empty.svm").write_text("")
    result = call("train", "empty.svm", "--model", "m")
    assert result.code == 1 and "empty.svm" in result.err
    assert "no such folder" in call("train", "train.svm", "--model", "nowhere/m").err
    assert "this is a folder" in call("train", "train.svm", "--model", tmp_path).err
    assert "choose a shorter name" in call("train", "none.svm", "--model", "x" * 245).err


def test_a_model_may_be_called_txt(call, digits):
    for _ in range(2):  # a new file, and one that is replaced
        assert call("train", "train.svm", "--features", "64", "--model", "m.txt").code == 0
    assert call("predict", "m.txt", "test.svm").code == 0
    Path("d.txt").write_text("1 3 2\n0 0:1\n")
    assert "not a model and would be overwritten" in call("train", "d.txt", "--model", "d.txt").err


def test_a_full_disk_for_temporary_files_is_named(call, digits, monkeypatch):
    assert call(*SVM, "--epochs", "1").code == 0
    old = Path("m").read_bytes()

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

        def close(self):  # what is left in a buffer cannot be written either
            super().close()
            raise OSError(28, "No space left on device")

    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: ignored.append(str(error.exc_value)))
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: ignored.append(str(error)))
    monkeypatch.setattr("manyclass.cli.rows.tempfile.TemporaryFile", lambda dir: Full())
    result = call(*SVM, "--epochs", "1", "--row-memory", "100kB")
    folder = os.path.realpath(".")
    assert f"a temporary file in {folder} could not be written (No space left on device)" in result.err
    gc.collect()
    assert ignored == []
    assert Path("m").read_bytes() == old


def test_a_bad_line_is_reported_or_skipped(call, digits):
    with open("train.svm", "a") as file:
        file.write("3 1:2 x\n4 7:nan\n")
    result = call(*SVM, "--epochs", "1")
    assert result.code == 1 and "train.svm, line 701, column 7" in result.err and not os.path.exists("m")
    result = call(*SVM, "--epochs", "2", "--skip-bad-lines", "--json")
    assert result.code == 0 and json.loads(result.out)["n_skipped"] == 2 and json.loads(result.out)["examples"] == 1400


def test_a_full_disk_keeps_the_old_model(call, digits, monkeypatch):
    assert call(*SVM, "--epochs", "1").code == 0
    old = Path("m").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("manyclass.core.model_file.os.fsync", full)
    result = call(*SVM, "--epochs", "2")
    assert result.code == 1 and "No space left on device" in result.err and "unchanged" in result.err
    assert Path("m").read_bytes() == old and sorted(os.listdir()) == ["m", "test.svm", "train.svm"]


def test_leftovers_of_killed_writers_are_removed(call, digits):
    Path(".m.abcdefgh.part").touch()
    Path(".m.checkpoint.abcdefgh.part").touch()
    assert call(*SVM, "--epochs", "1").code == 0
    assert sorted(os.listdir()) == ["m", "test.svm", "train.svm"]


def test_a_second_run_leaves_the_first_alone(call, digits):
    """It is refused, and removes no file of the first."""
    Path(".m.abcdefgh.part").touch()
    with only_writer("m"):
        result = call(*SVM, "--epochs", "1")
        assert result.code == 1 and "m is being written by another process" in result.err
        assert Path(".m.abcdefgh.part").exists() and not Path("m").exists()
    assert call(*SVM, "--epochs", "1").code == 0
    assert sorted(os.listdir()) == ["m", "test.svm", "train.svm"]


def test_the_lock_of_a_killed_run_is_void(call, digits):
    Path(".m.lock").touch()
    assert call(*SVM, "--epochs", "1").code == 0
    assert sorted(os.listdir()) == ["m", "test.svm", "train.svm"]


@pytest.mark.parametrize("target", [os.devnull, "pipe"])
def test_a_pipe_or_device_is_no_model(call, digits, target):
    os.mkfifo("pipe")
    result = call("train", "train.svm", "--features", "64", "--model", target)
    assert result.code == 1 and "this is a pipe or a device" in result.err
    assert not Path(target).is_file()


# -- several labels, text ------------------------------------------------------------------------------------------


def write_tags(path, n, seed=0):
    rng = np.random.default_rng(seed)
    with open(path, "w") as file:
        for _ in range(n):
            tags = sorted({f"tag{int(8 * rng.random() ** 2)}" for _ in range(rng.integers(1, 4))})
            words = " ".join(f"about {tag}" for tag in tags)
            file.write(json.dumps({"text": words, "tags": tags}) + "\n")


def test_lists_of_labels_train_a_label_tree_with_names(call, monkeypatch):
    write_tags("tags.jsonl", 300)
    write_tags("more.jsonl", 50, 1)
    words = ("train", "tags.jsonl", "--label", "tags", "--text", "text", "--epochs", "3", "--online")
    result = call(*words, "--model", "m", "--test", "more.jsonl", "--json")
    assert result.code == 0 and json.loads(result.out)["algorithm"] == "label-tree"
    assert json.loads(result.out)["test"]["precision@1"] > 0.9
    assert sorted(load_model("m").label_names_) == [f"tag{i}" for i in range(8)]
    monkeypatch.setattr(rows, "WINDOW", 64)
    monkeypatch.setattr(module, "_BATCH", 10)
    assert call(*words, "--model", "p").code == 0
    assert call(*words, "--model", "q", "--checkpoint-every", "7").code == 0
    assert Path("p").read_bytes() == Path("q").read_bytes()
    first = json.loads(call("predict", "m", "more.jsonl", "--format", "jsonl", "--top-k", "2").out.splitlines()[0])
    assert set(first["labels"]) <= set(load_model("m").label_names_)
    assert "does not support several labels" in call(*words, "--model", "x", "--algorithm", "recall-tree").err


def test_the_threshold_is_learned_from_the_rows_that_are_held_out(call, monkeypatch):
    monkeypatch.setattr(rows, "WINDOW", 256)
    monkeypatch.setattr(rows, "_HELD_OUT_SHARE", 0.2)
    write_tags("tags.jsonl", 600)
    words = ("train", "tags.jsonl", "--label", "tags", "--text", "text", "--epochs", "1", "--online", "--model", "m")
    assert call(*words).code == 0
    model = load_model("m")
    assert model.threshold == "auto" and 0 < model.threshold_ < 0.5
    result = json.loads(call("evaluate", "m", "tags.jsonl", "--json").out)
    assert result["threshold"] == model.threshold_ and result["micro_f1"] > 0.9


def test_the_first_rows_may_have_no_label(call, monkeypatch):
    monkeypatch.setattr(module, "_BATCH", 1)
    Path("d.svm").write_text(" 1:1\n 2:1\n3,4 1:1\n4 2:1\n")
    words = ("train", "d.svm", "--features", "3", "--no-shuffle", "--epochs", "1", "--online")
    assert call(*words, "--model", "whole").code == 0
    real, n = module._learn, 0

    def killed(*args):
        nonlocal n
        n += 1
        if n == 3:
            raise RuntimeError("killed")
        real(*args)

    monkeypatch.setattr(module, "_learn", killed)
    with pytest.raises(RuntimeError, match="killed"):
        call(*words, "--model", "m", "--checkpoint-every", "1")
    monkeypatch.setattr(module, "_learn", real)
    assert call(*words, "--model", "m", "--checkpoint-every", "1", "--resume").code == 0
    assert Path("m").read_bytes() == Path("whole").read_bytes()
    assert load_model("m").label_names_ == ["3", "4"]
    Path("none.svm").write_text(" 1:1\n 2:1\n")
    assert "no row has a label" in call("train", "none.svm", "--model", "x", "--labels", "several").err


def test_label_columns_are_the_same_in_other_formats(call):
    Path("d.xmc").write_text("4 3 6\n5 0:1\n3 1:1\n5 0:1\n3 1:1\n")
    Path("d.svm").write_text("3 2:1\n5 1:1\n")
    assert call("train", "d.xmc", "--model", "m").code == 0
    assert json.loads(call("evaluate", "m", "d.svm", "--json", "--index-base", "1").out)["accuracy"] == 1
    assert call("train", "d.svm", "--start-from", "m", "--model", "n", "--index-base", "1").code == 0
    assert load_model("n").label_names_ is None and len(load_model("n").classes_) == 6
    assert json.loads(call("evaluate", "n", "d.xmc", "--json").out)["accuracy"] == 1
    Path("far.svm").write_text("3,-5 2:1\n")
    assert "must be column numbers" in call("evaluate", "m", "far.svm", "--labels", "several").err


def test_xmc_labels_are_column_numbers(call, tmp_path):
    (tmp_path / "d.xmc").write_text("3 5 4\n0,3 0:1 1:1\n 2:1\n2 3:1 4:0.5\n")
    assert call("train", "d.xmc", "--model", "m", "--epochs", "2").code == 0
    clf = load_model("m")
    assert clf.label_names_ is None and clf.n_features_in_ == 5 and len(clf.classes_) == 4
    result = call("evaluate", "m", "d.xmc", "--json")
    assert json.loads(result.out)["n_rows"] == 3


def test_in_memory_calls_fit(call, digits):
    X, y = digits
    assert call(*SVM, "--in-memory", "--epochs", "2", "--algorithm", "one-against-all").code == 0
    clf = OneAgainstAllClassifier(n_epochs=2, random_state=0, table_bits=24)
    clf.fit(sp.csr_array(X[:700]), y[:700])
    assert np.array_equal(load_model("m")._state["columns"].weight, clf._state["columns"].weight)
    assert call(*SVM, "--in-memory", "--no-shuffle", "--epochs", "2", "--algorithm", "one-against-all").code == 0
    clf.set_params(shuffle=False).fit(sp.csr_array(X[:700]), y[:700])
    assert np.array_equal(load_model("m")._state["columns"].weight, clf._state["columns"].weight)
