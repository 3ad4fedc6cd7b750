"""The endpoints: plain ones, limits, keys, security headers, health and metrics."""

import asyncio
import json
import socket
import sqlite3
import subprocess
import sys
import threading
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from pydantic import ValidationError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from manyclass import (
    LabelTreeClassifier,
    LomTreeClassifier,
    ManyClassClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
    save_pipeline,
)
from manyclass.cli.main import train
from manyclass.cli.messages import CommandError
from manyclass.cli.serve import run as serve
from manyclass.core.validation import as_batch
from manyclass.serve import start
from manyclass.serve.app import LearnIn, PredictIn
from manyclass.serve.gate import Keys, Limits, Problem
from manyclass.serve.model import ServedModel, Settings
from manyclass.serve.service import Service
from tests.serve.tiny import WORDS, texts


def post(client, path, body, **options):
    return client.post(path, json=body, **options)


def test_predict_and_learn(client):
    client = client()
    found = post(client, "/predict", {"text": "dog cat", "k": 2}).json()
    assert found["labels"][0] == "animal" and len(found["scores"]) == len(found["probabilities"]) == 2
    assert found["model"] == "things" and found["version"] == 1
    assert 0 < found["probabilities"][1] <= found["probabilities"][0] <= 1
    learned = post(client, "/learn", {"text": "quasar pulsar", "label": "astronomy", "id": "1", "wait": True})
    assert learned.json() == {"seq": 1, "duplicate": False, "model": "things"}
    assert post(client, "/predict", {"text": "pulsar"}).json()["labels"][0] == "astronomy"
    again = post(client, "/learn", {"text": "quasar pulsar", "label": "astronomy", "id": "1"})
    assert again.json()["duplicate"] is True
    assert post(client, "/learn", {"text": "other", "label": "astronomy", "id": "1"}).status_code == 409


def test_explanations_name_words(client):
    client = client()
    found = post(client, "/predict", {"text": "dog and bus dog", "k": 1, "explanation": True}).json()
    explained = found["explanation"]
    assert explained["label"] == found["labels"][0] == "animal"
    assert {one["name"] for one in explained["contributions"]} == {"dog", "bus"}
    total = sum(one["contribution"] for one in explained["contributions"]) + sum(explained["terms"].values())
    assert total + explained["other_features"] == pytest.approx(found["scores"][0], abs=1e-4)


def test_several_rows_at_once(client):
    client = client()
    alone = post(client, "/predict", {"text": "dog", "rows": None, "k": 1}).json()  # null: as if it was left out
    assert alone["labels"] == ["animal"] and "rows" not in alone
    rows = [{"text": "dog"}, {"text": "bus"}, {"features": {"text": "piano"}}, {"text": "soup"}, {"text": "cow"}]
    found = post(client, "/predict", {"rows": rows, "k": 1}).json()["rows"]
    assert [row["labels"][0] for row in found] == ["animal", "vehicle", "music", "food", "animal"]
    labelled = [{"text": "x1 y1", "label": "x"}, {"text": "x2 y2", "label": "y"}]
    assert post(client, "/learn", {"rows": labelled}).json()["seq"] == 2


def test_a_single_text_has_the_features_of_a_batch(client):
    """Single texts take a faster way to the same numbers."""
    texts = ["dog Dog CAT", "été bus", "", "unknown", "a b c", "piano piano piano soup"]
    one = client()
    with one.model.published() as copy:
        features = copy.own_features()
        for rows in [*([text] for text in texts), texts]:
            fast, usual = features.batch(rows), as_batch(features(rows))
            assert type(fast) is type(usual)
            assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(fast, usual, strict=True)), rows


def test_requests_that_arrive_together_are_predicted_together(served):
    """A request that cannot be predicted does not harm the others."""
    service, calls = Service([served()], Limits()), []
    with service.published(None) as copy:
        predict = copy.predict
        copy.predict = lambda rows, *more: calls.append(len(rows)) or predict(rows, *more)

    async def together(*requests):
        found = (service.predict(None, None, rows, 1) for rows in requests)
        return await asyncio.gather(*found, return_exceptions=True)

    found = asyncio.run(together(["dog"], ["bus", "piano"], ["soup"]))
    assert [[one.labels[0] for one in rows] for rows in found] == [["animal"], ["vehicle", "music"], ["food"]]
    assert calls == [4]
    good, bad, other = asyncio.run(together(["dog"], [{"no such column": "x"}], ["soup"]))
    assert isinstance(bad, Problem) and bad.status == 422
    assert good[0].labels == ["animal"] and other[0].labels == ["food"]


def test_probabilities_are_those_of_the_estimator(client):
    one = client()
    with one.model.published() as copy:
        for text in ("dog", "piano bus soup", "unknown"):
            found = copy.predict([text], 4)[0]
            labels, scores = copy.estimator.predict_topk([text], len(found.labels))
            assert found.labels == labels[0].tolist() and found.scores == pytest.approx(scores[0].tolist())
            chances = dict(zip(copy.estimator.classes_.tolist(), copy.estimator.predict_proba([text])[0], strict=True))
            assert found.probabilities == pytest.approx([chances[label] for label in found.labels], abs=1e-6)


def test_words_and_path(client):
    client = client()
    text = "Dog and cat near a bus"
    found = post(client, "/predict", {"text": text, "words": True, "path": True}).json()
    assert [text[word["begin"] : word["end"]] for word in found["words"]] == ["Dog", "and", "cat", "near", "bus"]
    change = {word["word"]: word["change"] for word in found["words"]}
    assert change["Dog"] > 0 and change["near"] == 0 and change["bus"] < change["cat"]
    assert found["path"][0] == 0


BAD = [
    ({}, 422, "pass either text or features"),
    ({"text": "a", "features": {"text": "b"}}, 422, "pass either text or features"),
    ({"text": 5}, 422, "text"),
    ({"text": "a", "k": 0}, 422, "k"),
    ({"text": "a", "k": 10**9}, 422, "k must be from 1 to 1000"),
    ({"text": "a", "K": 1}, 422, "K"),
    ({"text": "a", "model": "nobody"}, 404, "there is no model 'nobody'"),
    ({"text": "a", "version": 7}, 404, "there is no version 7"),
    ({"features": [1.0, 2.0]}, 422, "pass a text, or an object with the columns 'text'"),
    ({"features": {"title": "a"}}, 422, "the column 'title' is unknown: the model has 'text'"),
    ({"features": {"text": ["a"]}}, 422, "must be a text or a number"),
    ({"features": {"text": 10**400}}, 422, "of at most 2**63"),
    ({"rows": []}, 422, "rows is empty"),
    ({"rows": [{"text": "a"}] * 2000}, 413, "2000 rows; at most 1000"),
]


def test_bad_rows_get_a_clear_error(client):
    client = client()
    for body, status, message in BAD:
        response = post(client, "/predict", body)
        assert response.status_code == status and message in response.json()["error"], body


def test_bad_labels_get_a_clear_error(client):
    client = client()
    for body, message in [
        ({"text": "a"}, "pass either label or labels"),
        ({"text": "a", "labels": ["x", "y"]}, "the model has one label per row, got 2"),
        ({"text": "a", "label": " "}, "a label must be a text of 1 to 1000 characters"),
        ({"text": "a", "label": 3}, "a label must be a text"),
        ({"text": "a", "label": "b", "id": ""}, "id"),
    ]:
        response = post(client, "/learn", body)
        assert response.status_code == 422 and message in response.json()["error"], body
    assert client.model.journal.bounds()[1] == 0


NO_REQUESTS = [b"", b"{", b"[]", b"\xff\xfe", b'{"text": "\\ud800"}', b"[" * 10_000, b"null", b"1e999"]


def test_bodies_that_are_no_requests(client):
    client = client()
    for body in NO_REQUESTS:
        response = client.post("/predict", content=body, headers={"content-type": "application/json"})
        assert response.status_code in (400, 422) and response.json()["error"], body


def test_limits_of_size_and_type(client):
    client = client(limits=Limits(body=2000))
    assert post(client, "/predict", {"text": "a" * 3000}).status_code == 413
    chunks = (b"a" * 500 for _ in range(10))
    assert client.post("/predict", content=chunks, headers={"content-type": "application/json"}).status_code == 413
    body = b'{"text": "a", "label": "b"}'
    plain = client.post("/learn", content=body, headers={"content-type": "text/plain"})
    assert plain.status_code == 415, "a foreign page can send this type without asking"
    foreign = {"content-type": "application/json", "sec-fetch-site": "cross-site"}
    assert client.post("/learn", content=body, headers=foreign).status_code == 403
    assert client.post("/admin/models/things/reload", headers=foreign).status_code == 403
    assert client.model.journal.bounds()[1] == 0 and client.model.version == 1


def test_limits_of_requests_at_a_time(client):
    client = client(limits=Limits(requests=2, per_client=1))
    gate = client.gate
    gate.n_requests = 2
    response = post(client, "/predict", {"text": "a"})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    gate.n_requests = 0
    gate._clients["127.0.0.1"] = 1
    response = post(client, "/predict", {"text": "a"})
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")


def test_a_full_backlog_asks_to_come_back(model_file, served):
    model = served(start=False, max_backlog=0)
    model.journal.last = 1
    from manyclass.serve.model import Busy

    with pytest.raises(Busy, match="1 rows wait"):
        model.check([("dog", ["animal"])])
    model.journal.last = 0


KEYS = Keys(["# three keys", "", "read reader-0123456789", "learn learner-0123456789", "admin admin-0123456789"])


ALLOWED = {
    None: [401, 401, 401],
    "wrong": [401, 401, 401],
    "reader-0123456789": [200, 403, 403],
    "learner-0123456789": [200, 200, 403],
    "admin-0123456789": [200, 200, 200],
}


def test_keys_and_scopes(client):
    client = client(keys=KEYS)
    for key, expected in ALLOWED.items():
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        statuses = [
            post(client, "/predict", {"text": "a"}, headers=headers).status_code,
            post(client, "/learn", {"text": "a", "label": "b"}, headers=headers).status_code,
            client.post("/admin/models/things/checkpoint", headers=headers).status_code,
        ]
        assert statuses == expected, key
        assert post(client, "/predict", {"text": "a"}, headers={"X-API-Key": key or ""}).status_code == expected[0]
    assert client.get("/v2/health/live").status_code == client.get("/").status_code == 200
    assert client.get("/metrics").status_code == client.get("/nothing").status_code == 401


def test_keys_are_checked_before_models_are_loaded(monkeypatch, tmp_path):
    (tmp_path / "keys").write_text("learn short\n")
    options = start.Options([("m", str(tmp_path / "none.model"))], keys=str(tmp_path / "keys"))
    monkeypatch.setenv("MANYCLASS_SERVE", json.dumps(asdict(options)))
    with pytest.raises(ValueError, match="at least 16 characters"):
        start.make()
    assert not (tmp_path / "none.model.state").exists()


def test_keys_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append(len(a) == len(b) == 32) or a == b)
    assert KEYS.level(b"reader-0123456789") == 0
    assert compared == [True] * 3, "every key is compared, by digests of the same length"


@pytest.mark.parametrize("lines", [["read short"], ["write 0123456789abcdef"], ["read"], [], ["# nothing"]])
def test_bad_key_files(lines):
    with pytest.raises(ValueError, match="key"):
        Keys(lines)


def test_security_headers(client):
    client = client(hosts=("localhost",))
    assert client.get("/").status_code == 421, "another name of this machine, as a hostile page could use"
    page = client.get("/", headers={"host": "localhost:8000"})
    assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff" and "access-control-allow-origin" not in page.headers
    headers = {"host": "localhost", "origin": "http://evil", "access-control-request-method": "POST"}
    asked = client.options("/learn", headers=headers)
    assert asked.status_code != 200 and "access-control-allow-origin" not in asked.headers


def test_nothing_of_the_file_system_is_reachable(client):
    client = client()
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page//etc/passwd", "/docs"):
        assert client.get(path).status_code == 404, path
    assert client.get("/page/main.js").headers["content-type"].startswith("text/javascript")


def test_health_is_true(client):
    client = client()
    assert client.get("/health").status_code == 200
    client.model._probe_at = float("inf")  # so that the learner does not find out that the disk is not full
    client.model.journal.error = "disk is full"
    found = client.get("/health")
    assert found.status_code == 503 and "disk is full" in found.json()["error"]
    assert client.get("/v2/health/ready").status_code == 200, "it still predicts"
    client.model.journal.error = ""


def test_a_full_disk_is_507_and_predictions_go_on(client):
    client = client()
    client.model.journal._writer.execute("PRAGMA max_page_count = 1")
    refused = post(client, "/learn", {"text": "x" * 20_000, "label": "animal"})
    assert refused.status_code == 507 and "nothing was learned" in refused.json()["error"]
    assert post(client, "/predict", {"text": "dog"}).status_code == 200
    assert post(client, "/learn", {"text": "dog", "label": "animal"}).status_code == 200


def test_metrics(client):
    client = client()
    for i in range(8):
        post(client, "/learn", {"text": "dog cow" if i % 2 else "bus", "label": "animal", "wait": True})
    post(client, "/learn", {"text": "dog", "label": "brand new", "wait": True})
    post(client, "/predict", {"text": "dog"})
    text = client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values['manyclass_learned{model="things"}']) == 9
    assert 0.4 < float(values['manyclass_accuracy{model="things"}']) < 1
    assert float(values['manyclass_new_labels{model="things"}']) == pytest.approx(1 / 9)
    assert 0.5 < float(values['manyclass_drift{model="things"}']) <= 1, "training rows had four labels"
    assert float(values['manyclass_request_seconds_count{route="/predict"}']) == 1
    stats = client.get("/stats").json()
    assert stats["predicted"] == 1 and stats["work"] > 0 and stats["latency_ms"]["p50"] > 0


def test_looking_into_the_model(client):
    client = client()
    root = client.get("/models/things/tree").json()
    assert root["node"] == 0 and root["n_labels"] == 4
    assert client.get("/models/things/tree?node=999").status_code == 404
    found = client.get("/models/things/labels?search=MU").json()["labels"]
    assert [one["label"] for one in found] == ["music"] and found[0]["rows"] > 50
    post(client, "/predict", {"text": "piano violin bus", "words": True})  # now these words have names
    page = client.get("/models/things/label?label=music").json()
    assert set(page["neighbours"]) == {"animal", "food", "vehicle"}
    assert {one["word"] for one in page["words"]} == {"piano", "violin"}
    post(client, "/predict", {"text": "choir", "words": True})  # words that come later are added
    page = client.get("/models/things/label?label=music").json()
    assert {one["word"] for one in page["words"]} == {"choir", "piano", "violin"}
    assert client.get("/models/things/label?label=none").status_code == 404


def test_versions_and_hot_swap_without_a_failed_request(client):
    client, stop, failed = client(), threading.Event(), []

    def ask():
        while not stop.is_set():
            response = post(client, "/predict", {"text": "dog"})
            if response.status_code != 200:
                failed.append(response.text)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert [client.post("/admin/models/things/reload").json()["version"] for _ in range(3)] == [2, 3, 4]
    finally:
        stop.set()
        thread.join()
    assert not failed
    assert client.get("/models").json()[0]["versions"] == [3, 4]
    assert post(client, "/predict", {"text": "dog", "version": 3}).json()["version"] == 3
    assert post(client, "/predict", {"text": "dog", "version": 1}).status_code == 404
    assert client.post("/admin/models/things/versions/3/restore").json()["version"] == 5


@pytest.mark.parametrize("kind", [LabelTreeClassifier, RecallTreeClassifier])
def test_models_saved_from_python_take_vectors(tmp_path, kind):
    """Dense and sparse vectors, and labels that are numbers."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20)).astype(np.float32)
    y = np.arange(300) % 5
    X[np.arange(300), y] += 5
    kind(random_state=0).fit(X, y).save(tmp_path / "m.model")
    model = ServedModel("m", tmp_path / "m.model", tmp_path / "state", Settings(publish_every=0))
    model.start()
    try:
        with model.published() as copy:
            dense = copy.predict([X[3].tolist()], 1)[0]
            sparse = copy.predict([{"indices": list(range(20))[::-1], "values": X[3].tolist()[::-1]}], 1)[0]
        assert dense.labels == sparse.labels == [3] and dense.scores == pytest.approx(sparse.scores)
        for row, why in [([1.0], "the row has 1 values, the model has 20 features"),
                         ([1e30] * 20, "features must be numbers from"), ([None] * 20, "features must be numbers"),
                         ({"indices": [20], "values": [1.0]}, "indices must be integers from 0 to 19"),
                         ({"indices": [1, 1], "values": [1.0, 2.0]}, "an index appears twice"),
                         ("text", "not trained on text")]:  # fmt: skip
            with pytest.raises(ValueError, match=why):
                model.check([(row, [1])])
        rows = [([0.0] * 19 + [9.0], [7])] * 20
        model.when_learned(model.add(model.check(rows), None).result().seq).result(60)
        with model.published() as copy:
            assert copy.predict([rows[0][0]], 1)[0].labels == [7]
    finally:
        model.stop()


def rounds(client, rows, label) -> None:
    """Predict, explain and learn rows several times, so that both copies of the model learn more than once."""
    for _ in range(3):
        for row in rows:
            found = post(client, "/predict", {**row, "k": 2, "path": True, "explanation": True})
            assert found.status_code == 200, found.text
            learned = post(client, "/learn", {**row, **label, "wait": True})
            assert learned.status_code == 200, learned.text
    assert len(post(client, "/predict", {"rows": rows}).json()["rows"]) == len(rows)
    assert client.model.n_refused == 0 and len(client.model.recent.right) == 3 * len(rows)
    assert client.get("/models/things/tree").json()["n_labels"] >= 4
    for one in client.get("/models/things/labels").json()["labels"]:
        assert client.get("/models/things/label", params={"label": str(one["label"])}).status_code == 200


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("width", [20, 300])
def test_calibrated_models_with_names_of_features(client, tmp_path, width):
    X, y = rows_of_numbers(width)
    table, letters = pd.DataFrame(X, columns=[f"f{i}" for i in range(width)]), np.array(list("abcd"))[y]
    LabelTreeClassifier(random_state=0).fit(table, letters).calibrate(table, letters).save(tmp_path / "m.model")
    rows = [X[1].tolist(), {"f1": 8.0, "f5": 1.0}, {"indices": [1], "values": [8.0]}]
    rounds(client(path=tmp_path / "m.model"), [{"features": row} for row in rows], {"label": "b"})


@pytest.mark.parametrize("width", [20, 300])
def test_models_with_several_labels_per_row(client, tmp_path, width):
    X, y = rows_of_numbers(width)
    Y = np.eye(4, dtype=int)[y] | (np.arange(200) % 3 == 0)[:, None] * np.array([1, 0, 0, 0])
    LabelTreeClassifier(random_state=0).fit(X, Y).save(tmp_path / "m.model")
    rows = [{"features": X[1].tolist()}, {"features": {"indices": [1], "values": [8.0]}}]
    rounds(client(path=tmp_path / "m.model"), rows, {"labels": [0, 2, 5]})


def test_models_of_tables(client, tmp_path):
    X, y = rows_of_numbers(3)
    lines = [f"{a},{b},{c},{'red' if i % 2 else 'blue'},{'wxyz'[y[i]]}" for i, (a, b, c) in enumerate(X.tolist())]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,colour,label", *lines]) + "\n")
    train(data=str(tmp_path / "rows.csv"), model=str(tmp_path / "m.model"), label="label", as_json=True)
    rows = [{"features": {"a": 1.0, "b": 8.0, "colour": "red"}}, {"features": {"b": "8", "colour": "new"}}]
    rounds(client(path=tmp_path / "m.model"), rows, {"label": "another"})


def rows_of_numbers(width: int):
    """Rows of four classes, each with a large value in a column of its own."""
    X, y = np.random.default_rng(0).standard_normal((200, width)).astype(np.float32), np.arange(200) % 4
    X[np.arange(200), y % width] += 8
    return X, y


KINDS = [
    LabelTreeClassifier,
    ManyClassClassifier,
    RecallTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    SpectralTreeClassifier,
]


@pytest.mark.parametrize("width", [20, 300])  # rows of up to 256 features are dense inside, sparse ones are converted
@pytest.mark.parametrize("kind", KINDS)
def test_every_estimator_learns_and_explains_vectors_again_and_again(client, tmp_path, kind, width):
    X, y = rows_of_numbers(width)
    kind(random_state=0).fit(sp.csr_array(X) if width == 300 else X, y).save(tmp_path / "m.model")
    client = client(path=tmp_path / "m.model")
    dense, sparse = X[2].tolist(), {"indices": [2, 9], "values": [9.0, 1.0]}
    learns = client.get("/models").json()[0]["learns"]
    assert learns == (kind is not SpectralTreeClassifier)
    for _ in range(3):  # both copies of the model, more than once
        for row in (dense, sparse):
            found = post(client, "/predict", {"features": row, "k": 2, "path": True, "explanation": True})
            assert found.status_code == 200 and found.json()["labels"][0] == 2, found.text
            learned = post(client, "/learn", {"features": row, "label": 2, "wait": True})
            assert learned.status_code == (200 if learns else 409), learned.text
    several = post(client, "/predict", {"rows": [{"features": row} for row in (dense, sparse, sparse)], "k": 1})
    assert [row["labels"] for row in several.json()["rows"]] == [[2], [2], [2]]
    assert client.model.n_refused == 0 and len(client.model.recent.right) == (6 if learns else 0)


def test_a_body_of_many_errors_is_refused_after_the_first():
    for kind, body in ((PredictIn, {"rows": [0] * 1000}), (LearnIn, {"labels": [[]] * 1000})):
        with pytest.raises(ValidationError) as error:
            kind.model_validate_json(json.dumps(body))
        assert error.value.error_count() <= 3


def test_details_are_for_few_rows_and_short_texts(client):
    client = client()
    rows = [{"text": "dog"}] * 21
    assert post(client, "/predict", {"rows": rows}).status_code == 200
    assert post(client, "/predict", {"rows": rows, "path": True}).status_code == 413
    assert post(client, "/predict", {"text": "dog " * 6000}).status_code == 200
    assert post(client, "/predict", {"text": "dog " * 6000, "words": True}).status_code == 413


def test_a_row_has_a_limited_number_of_labels(client, tmp_path):
    X, y = rows_of_numbers(20)
    LabelTreeClassifier(random_state=0).fit(X, np.eye(4, dtype=int)[y]).save(tmp_path / "m.model")
    client, row = client(path=tmp_path / "m.model"), {"features": X[0].tolist()}
    assert "up to 1000 labels" in post(client, "/learn", {**row, "labels": list(range(1001))}).json()["error"]
    assert "from 0 to 10003" in post(client, "/learn", {**row, "labels": [3_999_999]}).json()["error"]
    assert post(client, "/learn", {**row, "labels": ["3", 5]}).status_code == 200


def test_a_label_is_learned_as_it_is_or_refused(client):
    client = client()
    found = post(client, "/learn", {"text": "dog", "label": "new\0"})
    assert found.status_code == 422 and "must not end with the character NUL" in found.json()["error"]
    assert post(client, "/learn", {"text": "dog", "label": "new\0one", "wait": True}).status_code == 200
    assert "new\0one" in post(client, "/predict", {"text": "dog", "k": 1000}).json()["labels"]


def test_labels_that_are_negative_numbers(client, tmp_path):
    X, y = rows_of_numbers(20)
    LabelTreeClassifier(random_state=0).fit(X, y - 2).save(tmp_path / "m.model")
    client, row = client(path=tmp_path / "m.model"), {"features": [0.0] * 19 + [20.0]}
    assert post(client, "/learn", {**row, "label": "-7", "wait": True}).status_code == 200
    assert post(client, "/predict", row).json()["labels"][0] == -7


def test_rows_of_a_very_wide_model_are_sparse(client, tmp_path):
    X = sp.random_array((40, 200_000), density=1e-4, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    RecallTreeClassifier(random_state=0).fit(X, np.arange(40) % 4).save(tmp_path / "m.model")
    client = client(path=tmp_path / "m.model")
    refused = post(client, "/predict", {"features": [0] * 200_000})
    assert refused.status_code == 422 and "indices" in refused.json()["error"]
    assert post(client, "/predict", {"features": {"indices": [5], "values": [1.0]}}).status_code == 200


def test_administration_when_learning_has_stopped(client):
    client = client()
    client.model.error = "a reason"
    refused = client.post("/admin/models/things/checkpoint")
    assert refused.status_code == 503 and "a reason" in refused.json()["error"]
    client.model.error = ""
    client.model.journal.truncate = lambda seq: (_ for _ in ()).throw(sqlite3.OperationalError("disk is full"))
    assert client.post("/admin/models/things/checkpoint").status_code == 507


def test_words_of_a_vectorizer_with_a_vocabulary(client, tmp_path):
    rows = texts(200)
    words, labels = zip(*rows, strict=True)
    pipeline = make_pipeline(TfidfVectorizer(), LabelTreeClassifier(random_state=0)).fit(words, labels)
    save_pipeline(pipeline, tmp_path / "m.model")
    found = client(path=tmp_path / "m.model").get("/models/things/label?label=music").json()["words"]
    assert found and {one["word"] for one in found} <= set(WORDS["music"].split())


def test_slow_clients_are_cut_off(served, monkeypatch):
    """A header that does not end, and a body that does not end."""
    import asyncio
    import socket

    import uvicorn

    from manyclass.serve import start
    from manyclass.serve.app import make_app

    monkeypatch.setattr(start, "_HEADER_SECONDS", 0.2)
    app = make_app([served(start=False)], Limits(seconds=0.2))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, http=start.Impatient))

    async def ask(begin: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begin)
        response = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return response

    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    try:
        assert asyncio.run(ask(head[:30])) == b""
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(head + b"{")
            assert connection.recv(64).startswith(b"HTTP/1.1 408")
    finally:
        server.should_exit = True
        thread.join()


def test_the_log_is_json():
    import logging

    from manyclass.serve.gate import JsonLines

    record = logging.makeLogRecord({"msg": "checkpoint", "levelname": "INFO", "model": "m", "applied": 3})
    found = json.loads(JsonLines().format(record))
    assert found["event"] == "checkpoint" and found["applied"] == 3 and found["time"].endswith("Z")


def test_errors_say_which_row_is_bad(client):
    client = client()
    rows = [{"text": "dog", "label": "animal"}, {"text": "cat"}]
    assert post(client, "/learn", {"rows": rows}).json()["error"] == "rows.1: pass either label or labels."
    rows[1]["label"] = "\0\n"
    found = post(client, "/learn", {"rows": rows})
    assert found.status_code == 422 and found.json()["error"].startswith("rows.1: a label must be a text")
    found = post(client, "/predict", {"rows": [{"text": "dog"}, {"features": {"colour": "red"}}]})
    assert "rows.1: the column 'colour' is unknown" in found.json()["error"]
    assert post(client, "/predict", {"text": "dog", "txt": 1}).json()["error"] == "txt: unknown field"


def test_a_port_in_use_is_refused_before_the_model_is_loaded(model_file, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"127.0.0.1, port {port}: Address already in use"):
            serve([str(model_file)], False, host="127.0.0.1", port=port, keys=None)
    assert "Loading" not in capsys.readouterr().err


def test_workers_end_with_the_process_that_started_them(model_file, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "manyclass", "serve", str(model_file), "--port", str(port), "--workers", "2"]
    child = subprocess.Popen([*command, "--state", str(tmp_path / "state")], stderr=subprocess.PIPE, text=True)
    assert any('"ready"' in line for line in child.stderr if line.startswith("{"))
    child.kill()
    child.communicate(timeout=60)  # returns when all workers have closed it

    def is_open() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    assert not is_open()
