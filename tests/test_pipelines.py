"""`save_pipeline`: a vectorizer and a classifier in one file, for Python, the command line and the service."""

import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

from manyclass import LabelTreeClassifier, ModelFormatError, load_model, save_pipeline
from manyclass.cli.main import app
from manyclass.core import model_file

typer_testing = pytest.importorskip("typer.testing")

TEXTS = ["Red apple", "green pear", "sweet red cherry", "fast car", "blue bus", "old red tram", "été à la plage"] * 8
LABELS = ["fruit", "fruit", "fruit", "traffic", "traffic", "traffic", "travel"] * 8
NEW = ["a green apple", "the tram", "plage", "", "unknown"]
VECTORIZERS = {
    "tfidf": TfidfVectorizer(),
    "sublinear": TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), stop_words=["a", "the"], norm="l1"),
    "no idf": TfidfVectorizer(use_idf=False, dtype=np.float32),
    "not smooth": TfidfVectorizer(smooth_idf=False),
    "counts": CountVectorizer(strip_accents="unicode", binary=True),
    "characters": CountVectorizer(analyzer="char_wb", ngram_range=(2, 3), lowercase=False),
    "hashed": HashingVectorizer(n_features=2**9),
    "pattern": CountVectorizer(token_pattern=r"(?u)\b([^\W\d]{2,})\b"),
    "spaces": CountVectorizer(token_pattern=r"\S+"),
}


def fitted(vectorizer):
    return make_pipeline(vectorizer, LabelTreeClassifier(random_state=0)).fit(TEXTS, LABELS)


@pytest.mark.parametrize("name", VECTORIZERS)
def test_predictions_are_those_of_the_pipeline(name, tmp_path):
    pipeline = fitted(VECTORIZERS[name])
    save_pipeline(pipeline, tmp_path / "m.model")
    loaded, expected = load_model(tmp_path / "m.model"), pipeline[-1].predict_topk(pipeline[0].transform(NEW), 2)
    assert all(np.array_equal(a, b) for a, b in zip(loaded.predict_topk(NEW, 2), expected, strict=True))
    assert np.array_equal(loaded.predict([{"text": text} for text in NEW]), pipeline.predict(NEW))
    loaded.save(tmp_path / "again.model")
    assert (tmp_path / "again.model").read_bytes() == (tmp_path / "m.model").read_bytes()
    assert not pipeline[-1]._extra  # the pipeline itself has not changed


def test_the_command_line_predicts(tmp_path):
    pipeline = fitted(TfidfVectorizer())
    save_pipeline(pipeline, tmp_path / "m.model", text="question", slim=True)
    (tmp_path / "rows.csv").write_text("id,question\n" + "".join(f"{i},{text}\n" for i, text in enumerate(NEW)))
    result = typer_testing.CliRunner().invoke(app, ["predict", str(tmp_path / "m.model"), str(tmp_path / "rows.csv")])
    assert result.exit_code == 0, result.output
    assert typer_testing.CliRunner().invoke(app, ["inspect", str(tmp_path / "m.model")]).exit_code == 0
    _, *rows = [line.split("\t")[0] for line in result.stdout.splitlines()]  # after the header
    assert rows == pipeline.predict(NEW).tolist()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([CountVectorizer(tokenizer=str.split, token_pattern=None), LabelTreeClassifier()], "tokenizer= .* function"),
        ([CountVectorizer(), TfidfTransformer(), LabelTreeClassifier()], "two steps"),
        ([CountVectorizer(token_pattern=r"\w+(?:-\w+)*"), LabelTreeClassifier()], "token_pattern"),
    ],
)
def test_what_cannot_be_saved(steps, message, tmp_path):
    pipeline = make_pipeline(*steps).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match=message):
        save_pipeline(pipeline, tmp_path / "m.model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Pickle"}, "Pickle"),
        ({"analyzer": "words"}, "analyzer"),
        ({"ngram_range": [1, 10**9]}, "ngram_range"),
        ({"input": "filename"}, "options of the vectorizer"),
        ({"dtype": "object"}, "options of the vectorizer"),
        ({"token_pattern": "("}, "token_pattern"),
        ({"token_pattern": r"(\w+)+$"}, "token_pattern"),
        ({"token_pattern": r"\w*\w*\w*x"}, "token_pattern"),
        ({"token_pattern": None}, "token_pattern"),
        ({"token_pattern": r"[\w-]+\b"}, "token_pattern"),
        ({"token_pattern": r"\w{500000}"}, "token_pattern"),
        ({"token_pattern": r"\w" * 200}, "token_pattern"),
    ],
)
def test_a_damaged_vectorizer_is_an_error(change, message, tmp_path):
    save_pipeline(fitted(TfidfVectorizer()), tmp_path / "m.model")
    arrays, metadata = model_file.read(tmp_path / "m.model", False, True)
    metadata["extra"]["reading"]["vectorizer"] |= change
    model_file.write(tmp_path / "m.model", arrays, json.loads(json.dumps(metadata)))
    with pytest.raises(ModelFormatError, match=message):
        load_model(tmp_path / "m.model")
