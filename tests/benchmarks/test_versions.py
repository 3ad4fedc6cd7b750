"""The comparison of two versions: digests, rows of the table, and a version that cannot be measured."""

import json

from benchmarks import versions

TIMES = dict.fromkeys(versions.TIMES, 2.0)
BEFORE = {"accuracy": 0.5, "work": 10.0, "model": "a", "predictions": "b", "bytes": 10**6, **TIMES}


def model_file(**arrays: bytes) -> bytes:
    """A file in the safetensors format with arrays of bytes."""
    header, body = {"__metadata__": {"name": "x"}}, b""
    for name, content in arrays.items():
        offsets = [len(body), len(body) + len(content)]
        header[name] = {"dtype": "U8", "shape": [len(content)], "data_offsets": offsets}
        body += content
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def test_only_the_content_of_arrays_counts():
    digest = versions.digest_of_arrays(model_file(weight=b"123", bias=b"4"))
    assert versions.digest_of_arrays(model_file(b=b"4", w=b"123")) == digest
    assert versions.digest_of_arrays(model_file(weight=b"124", bias=b"4")) != digest


def test_rows_show_what_differs():
    row = versions.row_of("aloi", "RecallTreeClassifier", BEFORE, {**BEFORE, "work": 11.0, "model": "c", "fit": 3.0})
    assert (row["accuracy %"], row["work"]) == ("50.00", "10.0 → 11.0")
    assert (row["model"], row["predictions"]) == ("**differs**", "equal")
    assert (row["fit s"], row["fit ratio"], row["top-5 ratio"]) == ("2.000 → 3.000", "1.50", "1.00")
    failed = versions.row_of("aloi", "RecallTreeClassifier", BEFORE, {"error": "ImportError: no | here"})
    assert failed["accuracy %"] == "failed, after: ImportError: no / here"


def test_the_fastest_repeat_counts_and_versions_take_turns(monkeypatch, tmp_path):
    seconds, order = iter([4.0, 3.0, 1.0, 2.0]), []

    def run(version, folder, estimator, threads):
        order.append(version.name)
        return {**BEFORE, "fit": next(seconds)}

    monkeypatch.setattr(versions, "run", run)
    before, after = versions.compare([tmp_path / "a", tmp_path / "b"], tmp_path, "RecallTreeClassifier", 2, 1)
    assert order == ["a", "b", "a", "b"] and (before["fit"], after["fit"]) == (1.0, 2.0)


def test_a_version_that_fails_has_a_reason(tmp_path):
    (tmp_path / "manyclass.py").write_text("raise RuntimeError('a broken version')")
    assert versions.run(tmp_path, tmp_path, "RecallTreeClassifier", 1) == {"error": "RuntimeError: a broken version"}
