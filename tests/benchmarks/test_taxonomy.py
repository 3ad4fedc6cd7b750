"""The benchmarks of taxonomies and of label descriptions on small data."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import label_text, taxonomy
from benchmarks.sets import SetUnavailable
from manyclass import Taxonomy

XML = """<ICD10CM.tabular><chapter><name>1</name><desc>Infections</desc><section><desc>Intestinal</desc>
<diag><name>A00</name><desc>Cholera</desc><includes><note>cholera of any kind</note></includes>
<diag><name>A00.0</name><desc>Classical cholera</desc><inclusionTerm><note>old cholera</note></inclusionTerm>
<diag><name>A00.01</name><desc>Classical cholera, severe</desc></diag></diag></diag></section></chapter>
</ICD10CM.tabular>"""


def test_icd_texts_belong_to_categories_of_up_to_four_characters(tmp_path, monkeypatch):
    (tmp_path / taxonomy.ICD_FILE).write_text(XML)
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    monkeypatch.setattr(taxonomy, "FEWEST_TEXTS", 2)
    monkeypatch.setattr(taxonomy, "TEST_SHARE", 0.4)
    rows = taxonomy.icd()
    assert rows.X_train.shape[0] == 3 and rows.X_test.shape[0] == 2
    assert sorted([*rows.y_train, *rows.y_test]) == ["A00", "A00", "A00.0", "A00.0", "A00.0"]
    assert rows.taxonomy.path("A00.0") == ("Infections", "Intestinal", "A00", "A00.0")


def test_icd_is_left_out_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    with pytest.raises(SetUnavailable, match=r"no icd10cm-tabular\.xml in the folder MANYCLASS_DATA"):
        taxonomy.icd()


@pytest.fixture
def rows():
    """30 rows of five labels, of which two are held out; a row is a word of its label and one of 20."""
    rng = np.random.default_rng(0)
    y = np.repeat([f"label {number}" for number in range(5)], 6)
    X = sp.csr_matrix((np.ones(60, np.float32), (np.repeat(np.arange(30), 2), rng.permuted(
        np.stack([np.repeat(np.arange(5), 6), rng.integers(5, 25, 30)], axis=1), axis=1).ravel())), shape=(30, 300))
    labels, held_out = np.unique(y), np.array(["label 1", "label 4"])
    described = labels, sp.eye_array(5, 300, format="csr", dtype=np.float32)
    tree = Taxonomy.from_parents(dict.fromkeys(labels, "all"))
    return label_text.Rows(X, y, X, y, described, held_out, tree)


def test_first_rows_are_as_many_of_each_held_out_label(rows):
    assert len(label_text.first_rows(rows, 0)) == 0
    for n in (1, 5):
        names, counts = np.unique(rows.y[label_text.first_rows(rows, n)], return_counts=True)
        assert names.tolist() == rows.held_out.tolist() and counts.tolist() == [n, n]
    assert set(label_text.first_rows(rows, 1)) <= set(label_text.first_rows(rows, 5))


def test_new_labels_are_not_predicted_without_rows_or_descriptions(rows):
    lines = {(line[1], line[2]): [float(text) for text in line[3:5]] for line in label_text.batch(rows)}
    assert lines["nothing", "0"][0] == 0.0 and lines["descriptions", "0"][0] > 50.0
