"""TreeHead: probabilities, gradients, changes of the classes, and the ways in which PyTorch modules are used."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra [torch])")
from manyclass.torch import TreeHead  # noqa: E402
from manyclass.torch.grouped import _parts, group_pairs  # noqa: E402

torch.set_num_threads(1)


def make(n_classes=100, d=6, seed=0, **options):
    torch.manual_seed(seed)
    head = TreeHead(d, n_classes, dtype=torch.float64, **options)
    with torch.no_grad():
        head.weight.mul_(5)
        head.router.weight.mul_(3)
    return head


def rows(n=20, d=6, seed=1):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def targets(n_classes, n=20, seed=2):
    return torch.randint(n_classes, (n,), generator=torch.Generator().manual_seed(seed))


def all_scores(head, x):
    """Scores of all classes in their order."""
    return (x @ head.weight.flatten(0, 1).T + head.bias.flatten())[:, head.slot_of]


def dense_reference(head, x, target):
    """(loss of each row, log-probabilities of all classes) by the definition, with every score in memory.

    The clusters are those that the head draws after the same seed.
    """
    cluster_of = head.slot_of // head.weight.shape[1]
    log_cluster = head.router(x).log_softmax(1)
    scores = all_scores(head, x)
    visit = min(head.visit, head.n_clusters)
    n_random = visit // 4 if head.training and visit < head.n_clusters else 0
    n_best = visit - n_random
    preferred = log_cluster.topk(n_best).indices
    trained, _ = head._trained_clusters(log_cluster, cluster_of[target], visit, n_random)
    weight = (head.n_clusters - n_best) / max(1, n_random)
    losses, every = [], []
    for i in range(len(x)):
        inside = torch.isin(cluster_of, preferred[i])
        log_prob = torch.empty_like(scores[i])
        log_prob[inside] = log_cluster[i, preferred[i]].logsumexp(0) + scores[i, inside].log_softmax(0)
        for cluster in set(range(head.n_clusters)) - set(preferred[i].tolist()):
            own = cluster_of == cluster
            log_prob[own] = log_cluster[i, cluster] + scores[i, own].log_softmax(0)
        every.append(log_prob)
        y = target[i]
        kept = set(preferred[i].tolist())
        if int(cluster_of[y]) not in kept:
            kept = {*preferred[i, :-1].tolist(), int(cluster_of[y])}
        drawn = set(trained[i, n_best:].tolist())
        assert set(trained[i, :n_best].tolist()) == kept
        assert len(drawn) == n_random and not drawn & kept
        total = scores[i].exp() @ (
            torch.isin(cluster_of, torch.tensor(sorted(kept))).double()
            + weight * torch.isin(cluster_of, torch.tensor(sorted(drawn))).double()
        )
        losses.append(total.log() - scores[i, y] - log_cluster[i, cluster_of[y]])
    return torch.stack(losses), torch.stack(every)


@pytest.mark.parametrize("visit", [1, 3, 1000])
@pytest.mark.parametrize("n_classes", [2, 17, 1000, 10_000])
def test_probabilities_of_all_classes_sum_to_one(n_classes, visit):
    head = make(n_classes, visit=visit)
    total = head.log_prob(rows()).exp().sum(1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-12)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("visit", [1, 4, 1000])
def test_gradients_and_probabilities_equal_those_of_a_dense_reference(visit, training):
    head, x, y = make(visit=visit, cluster_size=16).train(training), rows(40).requires_grad_(), targets(100, 40)
    torch.manual_seed(3)
    log_prob, loss = head(x, y)
    loss.backward()
    gradients = [x.grad, *(p.grad for p in head.parameters())]
    other, x2 = copy.deepcopy(head), x.detach().clone().requires_grad_()
    other.zero_grad()
    torch.manual_seed(3)
    losses, every = dense_reference(other, x2, y)
    losses.mean().backward()
    assert torch.allclose(loss, losses.mean(), atol=1e-12)
    assert torch.allclose(log_prob, every.gather(1, y[:, None])[:, 0], atol=1e-12)
    for mine, theirs in zip(gradients, [x2.grad, *(p.grad for p in other.parameters())], strict=True):
        assert torch.allclose(mine, theirs, atol=1e-12)
    torch.manual_seed(3)
    assert (head(x, y, reduction="none").loss >= -log_prob - 1e-12).all()
    if not training:
        assert torch.allclose(head.log_prob(x), every, atol=1e-12)


def test_random_clusters_estimate_the_sum_over_all_classes():
    head, x = make(visit=4, cluster_size=16), rows(1)  # 3 of 7 clusters are preferred, one is drawn
    true = head.slot_of[:1] // head.weight.shape[1]
    with torch.no_grad():
        loss = head(x.expand(20_000, 6), torch.zeros(20_000, dtype=torch.int64), reduction="none").loss
        log_sum = loss + head.router(x).log_softmax(1)[0, true] + all_scores(head, x)[0, 0]
        exact = all_scores(head, x).logsumexp(1)
    assert len(log_sum.unique()) > 1
    assert float(log_sum.exp().mean() / exact.exp()) == pytest.approx(1, abs=0.02)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize(("n_classes", "d"), [(100, 6), (3000, 16), (20_000, 16)])  # one product per cluster; one; two
def test_gradients_on_the_gpu(n_classes, d):
    head = make(n_classes, d, visit=3, cluster_size=16)  # fewer than 4: nothing is drawn
    x, y = rows(40, d), targets(n_classes, 40)
    losses, every = dense_reference(head, x.requires_grad_(), y)
    losses.mean().backward()
    expected = [x.grad, *(p.grad for p in head.parameters())]
    for kind, error in ((torch.float32, 1e-4), (torch.bfloat16, 0.05 if d == 6 else 0.1)):
        other = copy.deepcopy(head).to("cuda", kind)
        other.zero_grad()
        x2 = x.detach().to("cuda", kind).requires_grad_()
        log_prob, loss = other(x2, y.cuda())
        loss.backward()
        for mine, theirs in zip([x2.grad, *(p.grad for p in other.parameters())], expected, strict=True):
            assert float((mine.double().cpu() - theirs).norm() / theirs.norm()) < error
        assert float((log_prob.double().cpu() - every.detach().gather(1, y[:, None])[:, 0]).abs().max()) < 10 * error


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside torch.compile
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_autocast_compile_and_graphs_on_the_gpu():
    head = make(3000, 16, visit=3).to("cuda", torch.float32)
    x, y = rows(40, 16).cuda().float(), targets(3000, 40).cuda()
    with torch.no_grad():
        exact = head(x, y).loss

    def step(function=head):
        head.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16):
            loss = function(x, y).loss
        loss.backward()
        return loss.detach()

    expected = step()
    assert expected.dtype == torch.float32
    assert abs(expected.item() - exact.item()) < 0.05
    gradients = [p.grad.clone() for p in head.parameters()]
    compiled, topk = torch.compile(head, fullgraph=True), torch.compile(head.topk, fullgraph=True)
    replay, captured = as_graph(step)
    for run in (lambda: step(compiled), lambda: replay() or captured):
        assert abs(run().item() - expected.item()) < 1e-3
        for mine, theirs in zip(head.parameters(), gradients, strict=True):
            assert float((mine.grad - theirs).norm() / theirs.norm()) < 0.01
    replay, captured = as_graph(lambda: head.topk(x, 3))
    replay()
    assert torch.equal(captured[1], head.topk(x, 3)[1])
    assert torch.equal(topk(x, 3)[1], head.topk(x, 3)[1])


def as_graph(function):
    """(replay the function as a CUDA graph, what it returns)"""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        out = function()
    return graph.replay, out


def test_visiting_all_clusters_is_the_full_softmax():
    head, x = make(visit=1000), rows()
    assert torch.allclose(head.log_prob(x), all_scores(head, x).log_softmax(1), atol=1e-12)


@pytest.mark.parametrize(("visit", "k"), [(2, 1), (3, 5), (1000, 20), (2, 18)])
def test_the_best_classes_are_those_of_the_visited_clusters(visit, k):
    head, x = make(visit=visit, cluster_size=16), rows()
    scores, classes = head.topk(x, k)
    every = head.log_prob(x)
    visited = head.router(x).topk(min(visit, head.n_clusters)).indices
    inside = ((head.slot_of // head.weight.shape[1])[None, :, None] == visited[:, None]).any(2)
    expected = every.masked_fill(~inside, -torch.inf).topk(k)
    assert torch.allclose(scores, expected.values, atol=1e-12)
    assert (classes == expected.indices).all()
    assert (head.predict(x) == classes[:, 0]).all()


def test_leading_dimensions_are_kept():
    head, x, y = make(), rows(24), targets(100, 24)
    flat = head(x, y, reduction="none")
    shaped = head(x.view(2, 3, 4, 6), y.view(2, 3, 4), reduction="none")
    assert torch.equal(shaped.loss.flatten(), flat.loss)
    assert head.log_prob(x.view(2, 12, 6)).shape == (2, 12, 100)
    assert head.topk(x.view(2, 12, 6), 3)[1].shape == (2, 12, 3)
    assert torch.allclose(head(x, y, reduction="sum").loss, flat.loss.sum())


def blobs(n_classes=60, d=16, n=3000, seed=0):
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((n_classes, d))
    y = rng.integers(n_classes, size=n)
    x = centres[y] + rng.standard_normal((n, d))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y), torch.tensor(centres, dtype=torch.float32)


def train(head, x, y, n_epochs=5, optimizer=None):
    optimizer = optimizer or torch.optim.Adam(head.parameters(), lr=0.02)
    for _ in range(n_epochs):
        for part in torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).split(100):
            optimizer.zero_grad()
            head(x[part], y[part]).loss.backward()
            optimizer.step()
    return optimizer


def accuracy(head, x, y):
    return float((head.predict(x) == y).float().mean())


@pytest.mark.parametrize("with_vectors", [False, True])
def test_it_learns(with_vectors):
    x, y, centres = blobs()
    torch.manual_seed(0)
    head = TreeHead(16, 60, visit=2, class_vectors=centres if with_vectors else None)
    optimizer = train(head, x[:2500], y[:2500])
    if not with_vectors:  # arbitrary clusters, which a linear router cannot tell apart
        before = accuracy(head, x[2500:], y[2500:])
        head.rebuild(x[:2500], optimizer=optimizer)
        train(head, x[:2500], y[:2500], 3, optimizer)
        assert accuracy(head, x[2500:], y[2500:]) > before + 0.1
    assert accuracy(head, x[2500:], y[2500:]) > 0.95


@pytest.mark.parametrize("n_new", [2, 40])  # within the free places; more than these
def test_new_classes_keep_the_optimizer_state_and_are_learned(n_new):
    x, y, centres = blobs(60 + n_new)
    old = y < 60
    torch.manual_seed(0)
    head = TreeHead(16, 60, visit=3, cluster_size=32, class_vectors=centres[:60])
    optimizer = train(head, x[old], y[old])
    moments = optimizer.state[head.weight]["exp_avg"].flatten(0, 1)[head.slot_of].clone()
    scores, n_clusters = all_scores(head, x[old]).detach(), head.n_clusters
    means = torch.stack([x[y == label].mean(0) for label in range(60, 60 + n_new)])
    classes = head.add_classes(n_new, means, optimizer=optimizer)
    assert classes.tolist() == list(range(60, 60 + n_new))
    assert head.n_classes == 60 + n_new
    assert (head.n_clusters > n_clusters) == (n_new == 40)
    assert torch.equal(all_scores(head, x[old])[:, :60], scores)
    assert torch.equal(optimizer.state[head.weight]["exp_avg"].flatten(0, 1)[head.slot_of[:60]], moments)
    assert (optimizer.state[head.bias]["exp_avg_sq"].flatten()[head.slot_of] > 0).all()  # no large first steps
    assert torch.equal(head.class_of.flatten()[head.slot_of], torch.arange(60 + n_new))
    assert accuracy(head, x[~old], y[~old]) > 0.4  # before any step; 0 if a new class had the mean weights
    assert accuracy(head, x[old], y[old]) > 0.9
    train(head, x, y, 3, optimizer)
    assert accuracy(head, x[~old], y[~old]) > 0.9
    assert accuracy(head, x[old], y[old]) > 0.9


def test_an_earlier_loss_may_be_kept():
    head, x, y = make(60, cluster_size=32), rows(), targets(60)
    optimizer = torch.optim.SGD(head.parameters(), 0.1, momentum=0.9)
    for n_classes in (60, 160):
        loss = head(x, y).loss
        loss.backward()
        optimizer.step()
        before = head.weight.detach().clone()
        if n_classes == 60:
            head.add_classes(100, torch.randn(100, 6, dtype=torch.float64), optimizer=optimizer)  # `loss` still lives
    optimizer.zero_grad()
    head(x, y).loss.backward()
    optimizer.step()
    assert not torch.equal(head.weight, before)  # the optimizer trains the new parameter
    assert {id(one) for one in optimizer.param_groups[0]["params"]} == {id(one) for one in head.parameters()}


def test_pieces_of_a_cluster_have_different_routers():
    head = make(60, cluster_size=32)
    head.add_classes(200, torch.randn(200, 6, dtype=torch.float64))
    assert head.n_clusters > 4 and len(head.router.weight.unique(dim=0)) == head.n_clusters


def test_empty_batches_and_rows_that_are_not_finite():
    head = make()
    assert head.topk(rows(0), 3)[1].shape == (0, 3) and head.log_prob(rows(0)).shape == (0, 100)
    head(rows(0), targets(100, 0), reduction="sum").loss.backward()
    assert float(head.weight.grad.abs().sum()) == 0
    head(rows(), targets(100))
    expected = float(head.input_scale)
    assert expected == pytest.approx(float(rows().square().sum(1).mean()), rel=1e-6)
    head(rows() * torch.nan, targets(100))
    assert (float(head.input_scale), int(head.n_inputs)) == (expected, 40)


def test_fewer_classes_than_asked_for():
    scores, classes = make(20, cluster_size=16, visit=1).topk(rows(), 14)  # 2 clusters of 10 classes and 16 places
    assert (classes[:, 10:] == -1).all() and (scores[:, 10:] == -torch.inf).all()
    assert (classes[:, :10] >= 0).all() and scores[:, :10].isfinite().all()


def test_new_classes_without_inputs_enter_the_emptiest_clusters():
    head = make(20, cluster_size=16)  # 2 clusters of 10
    head.add_classes(6)
    assert sorted(head.size.tolist()) == [13, 13]
    head.add_classes(12)
    assert (sorted(head.size.tolist()), head.weight.shape[1]) == ([19, 19], 32)  # no cluster is split
    head.add_classes(90)
    assert int(head.size.sum()) == 128 and int(head.size.max()) <= 40 and head.n_clusters > 2
    total = head.log_prob(rows()).exp().sum(1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-12)


def test_rebuild_moves_weights_and_is_deterministic():
    x, y, _ = blobs()
    torch.manual_seed(0)
    head = TreeHead(16, 60, visit=4)
    optimizer = train(head, x, y, 2)
    scores = all_scores(head, x).detach()
    moments = optimizer.state[head.bias]["exp_avg"].flatten()[head.slot_of].clone()
    other = copy.deepcopy(head)
    head.rebuild(x, optimizer=optimizer, seed=3)
    other.rebuild(x, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(head.state_dict().values(), other.state_dict().values(), strict=True))
    assert torch.allclose(all_scores(head, x), scores, atol=1e-5)
    assert torch.equal(optimizer.state[head.bias]["exp_avg"].flatten()[head.slot_of], moments)
    train(head, x, y, 2, optimizer)
    assert accuracy(head, x, y) > 0.95
    head.rebuild(cluster_size=32, optimizer=optimizer)
    assert (head.weight.shape[1], head.n_clusters) == (32, 2)
    train(head, x, y, 1, optimizer)
    assert accuracy(head, x, y) > 0.95


def test_a_wrapped_linear_layer():
    x, y, _ = blobs(300, n=6000)
    torch.manual_seed(0)
    linear = torch.nn.Linear(16, 300)
    optimizer = torch.optim.Adam(linear.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(linear(x[:5000]), y[:5000]).backward()
        optimizer.step()
    exact = linear(x[5000:]).detach()
    head = TreeHead.from_linear(linear, x[:5000], visit=1000)
    assert torch.allclose(head.log_prob(x[5000:]), exact.log_softmax(1), atol=1e-4)
    head.visit = 6
    assert float((head.predict(x[5000:]) == exact.argmax(1)).float().mean()) > 0.99
    gap = head.topk(x[5000:], 1)[0][:, 0] - exact.log_softmax(1).max(1).values
    assert float(gap.abs().median()) < 0.02  # the router has learned the probabilities of the clusters


def test_state_dict_of_a_head_that_has_grown(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    head = make(100)
    head.add_classes(50)
    other = make(100, seed=5)
    other.load_state_dict(head.state_dict())
    x = rows()
    assert torch.equal(other.log_prob(x), head.log_prob(x))
    safetensors.save_file(head.state_dict(), tmp_path / "head.safetensors")
    third = TreeHead(6, 3, dtype=torch.float64)
    third.load_state_dict(safetensors.load_file(tmp_path / "head.safetensors"))
    assert torch.equal(third.log_prob(x), head.log_prob(x))
    assert third.n_classes == 150
    model = torch.nn.Sequential(make(40))
    model.load_state_dict({f"0.{name}": value for name, value in head.state_dict().items()})
    assert torch.equal(model[0].log_prob(x), head.log_prob(x))


@pytest.mark.parametrize("name", ["size", "slot_of", "class_of", "weight", "bias", "router.weight"])
def test_damaged_states_are_refused(name):
    head, state = make(100), make(200).state_dict()
    if name == "weight":
        state[name] = state[name][:, :, :3]
    elif name in ("bias", "router.weight"):
        state[name] = state[name][:3]
    else:
        state[name].flatten()[0] += 1
    with pytest.raises(RuntimeError, match=r"damaged|features"):
        head.load_state_dict(state)
    assert head.n_classes == 100 and head(rows(), targets(100)).loss.isfinite()


def test_optimizers_whose_state_cannot_follow_are_refused():
    head = make(60)
    optimizer = torch.optim.Adafactor(head.parameters())
    head(rows(), targets(60)).loss.backward()
    optimizer.step()
    with pytest.raises(ValueError, match="Adafactor keeps a state of another shape"):
        head.add_classes(100, optimizer=optimizer)
    assert head.n_classes == 60


def test_autocast():
    head, x, y = make(1000, 16).float().eval(), rows(50, 16).float(), targets(1000, 50)
    exact = head(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = head(x, y)
    rounded.loss.backward()
    assert rounded.loss.dtype == torch.float32 and head.weight.grad.dtype == torch.float32
    assert abs(rounded.loss.item() - exact.loss.item()) < 0.05
    assert float((rounded.log_prob - exact.log_prob).abs().median()) < 0.1


def test_compile():
    head, x, y = make(200), rows(), targets(200)
    compiled = torch.compile(head, backend="aot_eager", fullgraph=True)
    torch.manual_seed(3)
    expected = head(x, y)
    expected.loss.backward()
    gradients = [p.grad.clone() for p in head.parameters()]
    head.zero_grad()
    torch.manual_seed(3)
    output = compiled(x, y)
    output.loss.backward()
    assert torch.allclose(output.log_prob, expected.log_prob)
    assert all(torch.allclose(p.grad, g) for p, g in zip(head.parameters(), gradients, strict=True))
    topk = torch.compile(head.topk, backend="aot_eager", fullgraph=True)
    assert torch.equal(topk(x, 3)[1], head.topk(x, 3)[1])


def _distributed_step(rank, folder):
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    head = torch.nn.parallel.DistributedDataParallel(make())
    x, y = rows(40), targets(100, 40)
    head(x[20 * rank : 20 * rank + 20], y[20 * rank : 20 * rank + 20]).loss.backward()
    torch.save([p.grad for p in head.parameters()], f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_distributed_data_parallel(tmp_path):
    torch.multiprocessing.spawn(_distributed_step, (str(tmp_path),), nprocs=2)
    head = make()
    head(rows(40), targets(100, 40)).loss.backward()
    for rank in range(2):
        for mine, theirs in zip(head.parameters(), torch.load(tmp_path / f"{rank}.pt"), strict=True):
            assert torch.allclose(mine.grad, theirs, atol=1e-12)


def test_cost():
    head = make(100, visit=2, cluster_size=16)  # 7 clusters of 14 or 15
    cost = head.cost(rows())
    assert (cost["routers_scored"], cost["clusters_visited"]) == (7, 2)
    assert 28 <= cost["classes_scored"] <= 30
    assert cost["share_scored"] == pytest.approx((7 + cost["classes_scored"]) / 100)


def test_groups_are_divided_into_calls_that_pytorch_allows():
    cluster = torch.randint(2500, (700, 4), generator=torch.Generator().manual_seed(0))
    order, ends = group_pairs(cluster, 2500)
    assert (cluster.flatten()[order].diff() >= 0).all()
    parts = _parts(ends, True)
    assert [part[:2] for part in parts] == [(0, 1000), (1000, 2000), (2000, 2500)]
    assert [part[2] for part in parts] == [0, int(ends[999]), int(ends[1999])]
    assert parts[-1][3] == 2800


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TreeHead(0, 10), "in_features must be an integer of at least 1"),
        (lambda: TreeHead(4, 1), "n_classes must be an integer of at least 2"),
        (lambda: TreeHead(4, 10, visit=0), "visit must be"),
        (lambda: TreeHead(4, 10, cluster_size=-1), "cluster_size must be"),
        (lambda: TreeHead(4, 10, class_vectors=np.ones((9, 3))), "9 rows for 10 classes"),
        (lambda: make()(rows(), targets(100, 19)), "target has the shape"),
        (lambda: make()(rows(), targets(101) + 100), "the head has 0..99"),
        (lambda: make()(rows(), targets(100).double()), "target must have integers"),
        (lambda: make()(rows(20, 5), targets(100)), "x has 5 features, the head expects 6"),
        (lambda: make()(rows(), targets(100), reduction="max"), "reduction must be"),
        (lambda: make().topk(rows(), 0), "k must be from 1 to"),
        (lambda: setattr(make(), "visit", 0), "visit must be"),
        (lambda: make().add_classes(0), "n must be"),
        (lambda: make().add_classes(3, rows(2)), "inputs has the shape"),
        (lambda: make().fit_routers(rows(1)), "inputs has 1 rows"),
        (lambda: make().add_classes(3, rows(3) * torch.nan), "not finite"),
        (lambda: make().rebuild(rows(20, 12)), "inputs has 12 features, the head expects 6"),
        (lambda: TreeHead.from_linear(torch.nn.Linear(6, 100), rows(20, 12)), "inputs has 12 features"),
        (lambda: make().add_classes(3, optimizer=torch.optim.SGD(make().parameters(), 0.1)), "optimizer does not"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
