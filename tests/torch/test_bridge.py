"""A head trained with PyTorch as a label tree, which predicts the same and learns on."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra [torch])")
from manyclass import LabelTreeClassifier, load_model  # noqa: E402
from manyclass.torch import TreeHead  # noqa: E402
from tests.torch.test_head import accuracy, blobs, make, train  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def trained():
    """(head of 280 classes, rows of 300 classes, labels)"""
    x, y, _ = blobs(300, n=6000)
    old = y < 280
    torch.manual_seed(0)
    head = TreeHead(16, 280, visit=5)
    train(head, x[old], y[old])
    head.rebuild(x[old])
    return head, x, y


def test_the_label_tree_predicts_the_same(trained, tmp_path):
    head, x, _ = trained
    model = head.to_manyclass()
    labels, scores = model.predict_topk(x.numpy(), 3)
    mine, classes = head.topk(x, 3)
    assert np.mean(labels == classes.numpy()) > 0.999  # ties of rounding
    expected = mine - mine[:, :1]
    same = (labels == classes.numpy()).all(axis=1)
    assert np.allclose((scores - scores[:, :1])[same], expected.numpy()[same], atol=1e-3)
    model.save(tmp_path / "head.model")
    assert np.array_equal(load_model(tmp_path / "head.model").predict(x.numpy()), model.predict(x.numpy()))


def test_labels_may_be_text(trained):
    head, x, _ = trained
    names = np.array([f"class {k}" for k in range(280)])
    assert np.mean(head.to_manyclass(names).predict(x.numpy()) == names[head.predict(x).numpy()]) > 0.999


def test_the_label_tree_learns_new_classes_and_keeps_the_old_ones(trained):
    head, x, y = trained
    model = head.to_manyclass()
    values, labels = x.numpy(), y.numpy()
    old = labels < 280
    before = model.score(values[old], labels[old])
    for _ in range(3):
        model.partial_fit(values, labels)
    assert len(model.classes_) == 300
    assert model.score(values[~old], labels[~old]) > 0.9
    assert model.score(values[old], labels[old]) > before - 0.02
    again = TreeHead.from_manyclass(model)
    assert again.n_classes == 300
    column = torch.as_tensor(np.asarray(model.classes_))
    assert np.mean(column[again.predict(x)].numpy() == model.predict(values)) > 0.99
    assert accuracy(again, x[old], torch.as_tensor(np.argsort(model.classes_))[y[old]]) > before - 0.02


def test_one_new_label_alone_is_learned(trained):
    head, x, y = trained
    model, new = head.to_manyclass(), x[y == 285].numpy()
    for _ in range(10):
        model.partial_fit(new, np.full(len(new), 285))
    assert (model.predict(new) == 285).mean() > 0.9
    old = (y < 280).numpy()
    assert (model.predict(x.numpy()[old]) == y.numpy()[old]).mean() > 0.9


def test_there_and_back(trained):
    head, x, _ = trained
    again = TreeHead.from_manyclass(head.to_manyclass(), visit=head.visit)
    assert torch.allclose(again.log_prob(x[:100]), head.log_prob(x[:100]), atol=1e-3)


def test_what_cannot_be_converted(trained, digits):
    with pytest.raises(ValueError, match="has seen no inputs"):
        make().to_manyclass()
    with pytest.raises(ValueError, match="classes has the shape"):
        trained[0].to_manyclass(np.arange(3))
    with pytest.raises(ValueError, match="twice"):
        trained[0].to_manyclass(np.zeros(280))
    with pytest.raises(ValueError, match="is not a label tree"):
        TreeHead.from_manyclass(LabelTreeClassifier())
    with pytest.raises(ValueError, match="trained with fit"):
        TreeHead.from_manyclass(LabelTreeClassifier(random_state=0).fit(*digits))
    with pytest.raises(ValueError, match="set_params"):
        TreeHead.from_manyclass(LabelTreeClassifier(random_state=0).partial_fit(*digits))
