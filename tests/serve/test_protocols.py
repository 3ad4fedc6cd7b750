"""Protocols of others: the Open Inference Protocol with a real client, the REST interface of Annif, our own client."""

import socket
import sys
import threading

import numpy as np
import pytest

from manyclass.cli.main import run, train
from manyclass.serve.client import Client, ServiceError

TEXTS = ["dog cat horse", "piano song", "bus wheel"]
LABELS = ["animal", "music", "vehicle"]


def infer(client, body, path="/v2/models/things/infer"):
    return client.post(path, json=body)


def text_input(texts, shape=None):
    return {"name": "text", "shape": shape or [len(texts)], "datatype": "BYTES", "data": texts}


def test_open_inference(client):
    client = client()
    assert client.get("/v2").json()["name"] == "manyclass"
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    about = client.get("/v2/models/things").json()
    assert about["versions"] == ["1"] and about["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert client.get("/v2/models/things/versions/1/ready").json()["ready"] is True
    for path in ("/v2/models/nobody", "/v2/models/things/versions/2", "/v2/models/things/versions/x/ready"):
        assert client.get(path).status_code == 404 and "error" in client.get(path).json()
    wanted = [{"name": "labels"}, {"name": "probabilities"}, {"name": "path"}]
    body = {"id": "7", "inputs": [text_input(TEXTS)], "outputs": wanted, "parameters": {"k": 2}}
    found = infer(client, body, "/v2/models/things/versions/1/infer").json()
    assert (found["id"], found["model_name"], found["model_version"]) == ("7", "things", "1")
    labels, probabilities, path = found["outputs"]
    assert labels["shape"] == probabilities["shape"] == [3, 2] and path["shape"] == [3, 1]
    assert labels["data"][::2] == LABELS and probabilities["datatype"] == "FP32"


def test_open_inference_of_several_columns(client, tmp_path):
    """A tensor for each column."""
    data, names = tmp_path / "rows.csv", ["a", "b", "c"]
    rows = [(name, f"{name}{name} w{i} of {i * 7}", i % 7 + 10 * k) for i in range(40) for k, name in enumerate(names)]
    data.write_text("label,subject,size\n" + "".join(f"{label},{text},{size}\n" for label, text, size in rows))
    train(data=str(data), model=str(tmp_path / "m.model"), label="label", feature_bits=12, as_json=True)
    client = client(path=tmp_path / "m.model")
    subject, size = client.get("/v2/models/things").json()["inputs"]
    assert subject == {"name": "subject", "datatype": "BYTES", "shape": [-1]}
    assert size == {"name": "size", "datatype": "FP64", "shape": [-1]}
    subject.update(shape=[2], data=["cc word", "aa word"])
    size.update(shape=[2], data=[22, 3])
    found = infer(client, {"inputs": [subject, size], "outputs": [{"name": "labels"}], "parameters": {"k": 1}}).json()
    assert found["outputs"][0]["data"] == ["c", "a"]
    size.update(shape=[1], data=[22])
    assert "a tensor for each column" in infer(client, {"inputs": [subject, size]}).json()["error"]
    subject.update(name="other", shape=[1], data=["x"])
    assert "'other' is unknown" in infer(client, {"inputs": [subject, size]}).json()["error"]


WRONG = [
    ({"inputs": []}, "inputs"),
    ({"inputs": [text_input(TEXTS, [2])]}, "the shape has 2 values, the data 3"),
    ({"inputs": [text_input([1, 2])]}, "BYTES must be texts"),
    ({"inputs": [text_input(TEXTS, [-3])]}, "not possible"),
    ({"outputs": [{"name": "nothing"}]}, "there is no output 'nothing'"),
    ({"parameters": {"k": "many"}}, "k must be an integer"),
    ({"inputs": [text_input(["a"]), text_input(["b"])]}, "two tensors must be indices and values"),
]


def test_open_inference_errors(client):
    client = client()
    for change, message in WRONG:
        response = infer(client, {"inputs": [text_input(TEXTS)], **change})
        assert response.status_code == 422 and message in response.json()["error"], change
    many = [text_input(["dog"] * 21)]
    assert infer(client, {"inputs": many}).status_code == 200
    response = infer(client, {"inputs": many, "outputs": [{"name": "path"}]})
    assert response.status_code == 413 and "at most 20 rows" in response.json()["error"]


@pytest.mark.parametrize("binary", [False, True])
def test_the_real_client_of_triton(client, binary):
    http = pytest.importorskip("tritonclient.http", reason="requires: pip install 'tritonclient[http]'")
    triton = http.InferenceServerClient(str(client().base_url).removeprefix("http://").rstrip("/"))
    assert triton.is_server_live() and triton.is_server_ready() and triton.is_model_ready("things")
    assert triton.get_model_metadata("things")["platform"] == "manyclass"
    given = http.InferInput("text", [3], "BYTES")
    given.set_data_from_numpy(np.array(TEXTS, dtype=object), binary_data=binary)
    wanted = [http.InferRequestedOutput(name, binary_data=binary) for name in ("labels", "scores")]
    found = triton.infer("things", [given], outputs=wanted, parameters={"k": 2})
    labels = found.as_numpy("labels")
    assert [one.decode() if binary else one for one in labels[:, 0]] == LABELS
    assert found.as_numpy("scores").shape == (3, 2) and found.as_numpy("scores").dtype == np.float32
    triton.close()


def test_sparse_tensors(tmp_path, served):
    """Two tensors, indices and values; an index of -1 fills short rows."""
    from manyclass.serve.open_inference import Tensor, _rows

    inputs = [
        Tensor(name="values", shape=[2, 2], datatype="FP32"),
        Tensor(name="indices", shape=[2, 2], datatype="INT64"),
    ]
    rows = _rows(inputs, [[0.5, 1.0, 2.0, 0.0], [3, 1, 2, -1]], [])
    assert rows == [{"indices": [3, 1], "values": [0.5, 1.0]}, {"indices": [2], "values": [2.0]}]


def test_annif(client):
    client = client()
    about = client.get("/v1/projects/things").json()
    assert about["is_trained"] is True and about["modification_time"].endswith("Z")
    assert client.get("/v1/projects").json()["projects"] == [about]
    assert client.get("/v1/projects/nobody").status_code == 404
    found = client.post("/v1/projects/things/suggest", data={"text": "dog", "limit": "2", "metadata_title": "x"}).json()
    best = found["results"][0]
    assert best["uri"] == best["label"] == "animal" and 0 < best["score"] <= 1 and len(found["results"]) <= 2
    assert client.post("/v1/projects/things/suggest", data={"limit": "2"}).status_code == 400
    documents = [{"text": text, "document_id": str(i)} for i, text in enumerate(TEXTS)]
    batch = client.post("/v1/projects/things/suggest-batch?limit=1", json={"documents": documents}).json()
    assert [(one["document_id"], one["results"][0]["uri"]) for one in batch] == [*zip("012", LABELS, strict=True)]
    too_many = client.post("/v1/projects/things/suggest-batch", json={"documents": [{"text": "a"}] * 33})
    assert too_many.status_code == 422
    learned = client.post("/v1/projects/things/learn", json=[{"text": "comet", "subjects": [{"uri": "http://x/sky"}]}])
    assert learned.status_code == 204 and learned.content == b""
    client.model.when_learned(1).result(30)
    assert client.post("/v1/projects/things/suggest", data={"text": "comet"}).json()["results"][0]["uri"] == "http://x/sky"


def test_python_client(client):
    http = client()
    ours = Client(str(http.base_url))
    assert ours.predict("dog cat")["labels"][0] == "animal"
    first = ours.learn("robot", "metal arm", id="one", wait=True)
    assert ours.learn("robot", "metal arm", id="one") == {**first, "duplicate": True}
    assert ours.predict(features={"text": "metal arm"}, k=1)["labels"] == ["robot"]
    with pytest.raises(ServiceError, match="404: there is no model 'x'"):
        Client(str(http.base_url), model="x").predict("dog")
    with pytest.raises(ValueError, match="http://"):
        Client("file:///etc/passwd")


def test_the_client_tries_again_when_the_service_is_busy(client, monkeypatch):
    http, pauses = client(), []
    monkeypatch.setattr("time.sleep", lambda seconds: pauses.append(seconds) or setattr(http.gate, "n_requests", 0))
    http.gate.n_requests = 10**6
    assert Client(str(http.base_url)).predict("dog")["labels"][0] == "animal"
    assert pauses == [1.0], "what Retry-After said"
    monkeypatch.setattr("time.sleep", pauses.append)
    with pytest.raises(OSError):
        Client("http://127.0.0.1:9", retries=2).predict("dog")
    assert pauses[1:] == [0.1, 0.2]


def test_the_client_repeats_a_response_that_was_cut_off(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond(*bodies):
            for body in bodies:
                connection, _ = server.accept()
                with connection:
                    while not connection.recv(1 << 16).endswith(b"}"):  # all of it: otherwise the end is a reset
                        pass
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + body)

        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        for bodies, retries in (([b'{"labels"', b'{"labels":[]}'], 1), ([b'{"labels"'], 0)):
            thread = threading.Thread(target=respond, args=bodies)
            thread.start()
            if retries:
                assert Client(url, retries=retries).predict("dog") == {"labels": []}
            else:
                with pytest.raises(OSError, match="no complete response"):
                    Client(url, retries=retries).predict("dog")
            thread.join()


def test_client_of_the_shell(client, monkeypatch, capsys):
    url = str(client().base_url)
    for words, expected in [
        (["dog cat", "--top-k", "1"], "animal\t"),
        (["metal arm", "--label", "robot"], "learned as row 1"),
        (["bus", "--json"], '"labels": ["vehicle"'),
    ]:
        monkeypatch.setattr(sys, "argv", ["manyclass", "client", "--url", url, *words])
        with pytest.raises(SystemExit) as end:
            run()
        assert end.value.code == 0 and expected in capsys.readouterr().out
