"""Label tree in files: what must hold in one that is loaded, and the slim form that only answers."""

import numpy as np

from ..core.invariants import check_scale, check_seen, need, need_range
from ..core.losses import LOSSES
from ..core.state import Blocks, LabelTree, Run, Scale, Seen, SlimBlocks, State, cut
from .kernels import DEEPEST
from .state import MOST_PATHS, Config, block_width, suffix_of, trees_of
from .weights import LANES, SIZES

GROUPS = {"tree": LabelTree, "blocks": (Blocks, SlimBlocks), "scale": Scale, "seen": Seen, "run": Run}


def check(config: Config, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """Everything that the kernels trust."""
    need(config.loss in LOSSES, f"the loss is {config.loss!r}.")
    need(4 <= config.arity <= 64, f"arity is {config.arity}.")
    need(1 <= config.beam <= MOST_PATHS, f"beam is {config.beam}.")
    n_trees = sum(name.startswith("tree") for name in state)
    wanted = {f"{name}{suffix_of(number)}" for name in ("tree", "blocks") for number in range(n_trees)}
    need(set(state) == wanted | {"scale", "seen", "run"}, "the trees are not numbered one after the other.")
    for number, (tree, blocks) in enumerate(trees_of(state)):
        check_label_tree(tree, config, n_classes)
        room = len(tree.parent)
        shape = room, block_width(config)
        name = f"blocks{suffix_of(number)}.bias"
        need(blocks.bias.shape == shape, f"{name} has the shape {blocks.bias.shape}, not {shape}.")
        need(isinstance(blocks, SlimBlocks) == slim, "the weights are not those of a slim model, or it is not slim.")
        if isinstance(blocks, SlimBlocks):
            check_slim_blocks(blocks, n_features)
        else:
            check_blocks(blocks, n_features)
    check_scale(state["scale"], n_features)
    check_seen(state["seen"], n_classes)
    need_range("run.label", state["run"].label, -1, n_classes)
    need_range("run.length", state["run"].length, 0, 1 << 62)


def check_label_tree(tree: LabelTree, config: Config, n_classes: int) -> None:
    """A tree: one parent each, no circle; every label at most once, where it says it is."""
    n, arity = int(tree.n_nodes[0]), config.arity
    need(1 <= n <= len(tree.parent), f"tree.n_nodes is {n}, with room for {len(tree.parent)}.")
    need(tree.outputs.shape[1] == arity, f"tree.outputs has {tree.outputs.shape[1]} places for arity {arity}.")
    need_range("tree.is_leaf", tree.is_leaf, 0, 2)
    need_range("tree.size", tree.size, 0, arity + 1)
    inner = tree.is_leaf[:n] == 0
    need((tree.size[:n][inner] > 0).all(), "an inner node has no children.")
    need(not tree.size[n:].any(), "a node that is not there has outputs.")
    need(tree.parent[0] == -1 and not (tree.outputs[:n][inner] == 0).any(), "the root has a parent.")
    owner, place = np.nonzero(np.arange(arity) < tree.size[:n, None])
    outputs, to_node = tree.outputs[owner, place], inner[owner]
    children = outputs[to_node]
    need_range("children in tree.outputs", children, 1, n)
    need(len(children) == n - 1, f"the tree has {n} nodes and {len(children)} children.")
    parents = (tree.parent[children] == owner[to_node]) & (tree.place[children] == place[to_node])
    need(parents.all(), "a node is not where its parent has it.")
    labels = outputs[~to_node]
    need_range("labels in tree.outputs", labels, 0, min(n_classes, len(tree.leaf_of)))
    homes = (tree.leaf_of[labels] == owner[~to_node]) & (tree.place_of[labels] == place[~to_node])
    need(homes.all(), "a label is not in the leaf where it says it is.")
    need((tree.leaf_of >= 0).sum() == len(labels), "a label says it is in a leaf that does not have it.")
    level, depth, met = np.array([0]), 0, 1
    while len(level):  # every node has one parent: what is reached from the root within so many levels has no circle
        need(depth <= DEEPEST, f"the tree is deeper than {DEEPEST} levels, or has a circle.")
        level = level[inner[level]]
        level = tree.outputs[level][np.arange(arity) < tree.size[level, None]]
        met, depth = met + len(level), depth + 1
    need(met == n, "some nodes cannot be reached from the root.")


def check_blocks(blocks: Blocks, n_features: int) -> None:
    """Tables that lie apart, each with an empty entry; features and records that there are."""
    n_entries, n_records = int(blocks.n_entries[0]), int(blocks.n_records[0])
    need(0 <= n_entries <= len(blocks.feature), f"blocks.n_entries is {n_entries}.")
    need(0 <= n_records <= len(blocks.weight), f"blocks.n_records is {n_records}.")
    need(len(blocks.free) == SIZES, f"blocks.free has {len(blocks.free)} sizes.")
    nodes = np.flatnonzero(blocks.mask >= 0)
    need((blocks.mask >= -1).all(), "blocks.mask is below -1.")
    first, size = blocks.first[nodes], blocks.mask[nodes] + 1
    need(((size & (size - 1)) == 0).all(), "a table's size is no power of two.")
    need(not blocks.n_used[blocks.mask < 0].any(), "a node without a table has features.")
    spans = [*zip(first.tolist(), size.tolist(), strict=True), *_free_tables(blocks, n_entries)]
    at = 0
    for begin, length in sorted(spans):
        need(begin >= at and begin + length <= n_entries, f"the table at entry {begin} lies where it should not.")
        at = begin + length
    full = np.concatenate([[0], np.cumsum(blocks.feature >= 0)])
    need((full[first + size] - full[first] == blocks.n_used[nodes]).all(), "blocks.n_used is not what the tables hold.")
    need((blocks.n_used[nodes] < size).all(), "a table has no empty entry.")
    begins, lengths = np.repeat(first, size), np.repeat(np.cumsum(size) - size, size)
    entries = begins + np.arange(len(begins)) - lengths
    entries = entries[blocks.feature[entries] >= 0]
    need_range("blocks.feature", blocks.feature[entries], 0, n_features)
    need_range("blocks.record", blocks.record[entries], 0, n_records)


def _free_tables(blocks: Blocks, n_entries: int) -> list[tuple[int, int]]:
    """(first entry, size) of all tables that were given back: a chain for each size."""
    out = []
    for log, head in enumerate(blocks.free.tolist()):
        steps = 0
        while head >= 0:
            need(head + (1 << log) <= n_entries and steps <= n_entries >> log, f"blocks.free[{log}] leads astray.")
            out.append((head, 1 << log))
            head, steps = int(blocks.record[head]), steps + 1
    return out


def check_slim_blocks(blocks: SlimBlocks, n_features: int) -> None:
    """Sorted features and as many weights as the lanes have bits."""
    n, n_nodes = len(blocks.feature), len(blocks.bias)
    need(len(blocks.first) == n_nodes + 1, f"blocks.first has {len(blocks.first)} places for {n_nodes} nodes.")
    need(blocks.first[0] == 0 and blocks.first[-1] == n, "blocks.first does not span the features.")
    need_range("blocks.first", blocks.first, 0, n + 1)
    need((np.diff(blocks.first) >= 0).all(), "blocks.first goes back.")
    need(LANES * blocks.lanes.shape[1] == blocks.bias.shape[1], "blocks.lanes has too many or too few parts.")
    need_range("blocks.feature", blocks.feature, 0, n_features)
    ends = blocks.begin.astype(np.int64) + np.bitwise_count(blocks.lanes).sum(axis=1, dtype=np.int64)
    need(n == 0 or ends.max() <= len(blocks.value), "blocks.begin leads past the weights.")


def trim(state: State, n_classes: int) -> State:
    """Without the room kept for more: it comes back when needed, and no number depends on it."""
    out = dict(state)
    for number, (tree, blocks) in enumerate(trees_of(state)):
        n = int(tree.n_nodes[0])
        out[f"tree{suffix_of(number)}"] = cut(tree, node=n, **{"class": n_classes})
        if isinstance(blocks, Blocks):
            blocks = cut(blocks, node=n, entry=int(blocks.n_entries[0]), record=int(blocks.n_records[0]))
        out[f"blocks{suffix_of(number)}"] = blocks
    return out


def slim(config: Config, state: State, n_classes: int, prune: float = 0.0) -> tuple[Config, State]:
    """What answers need: weights with the start in them, those at most `prune` in size left out."""
    out = trim(state, n_classes)
    for number, (tree, blocks) in enumerate(trees_of(out)):
        packed = pack(tree, blocks, config) if isinstance(blocks, Blocks) else blocks
        out[f"blocks{suffix_of(number)}"] = pruned(packed, prune)
    return config, out


def pack(tree: LabelTree, blocks: Blocks, config: Config) -> SlimBlocks:
    """The weights that are not zero, node by node in the order of features."""
    n, width = int(tree.n_nodes[0]), blocks.bias.shape[1]
    features, lanes, values, counts = [], [], [], np.zeros(n + 1, np.int64)
    bit = np.uint16(1) << np.arange(LANES, dtype=np.uint16)
    for node in range(n):
        table = slice(int(blocks.first[node]), int(blocks.first[node] + blocks.mask[node] + 1))
        feature, record = blocks.feature[table], blocks.record[table]
        order = np.argsort(feature, kind="stable")[np.count_nonzero(feature < 0) :]
        start = config.start if tree.is_leaf[node] else config.router_start
        sq_norm = blocks.sq_norm[node]
        length = np.where(sq_norm > 0, start / np.sqrt(np.where(sq_norm > 0, sq_norm, 1)), 0).astype(np.float32)
        weights = blocks.weight[record[order]] + blocks.total[record[order]] * length
        weights[:, tree.size[node] :] = 0.0
        kept = weights != 0
        known = kept.any(axis=1)
        weights, kept = weights[known], kept[known]
        features.append(feature[order][known])
        lanes.append((kept.reshape(len(kept), width // LANES, LANES) * bit).sum(axis=2, dtype=np.uint16))
        values.append(weights[kept])
        counts[node + 1] = len(kept)
    feature, lane, value = (np.concatenate(part) for part in (features, lanes, values))
    return _slim_blocks(counts, feature, lane, value, blocks.bias[:n])


def pruned(blocks: SlimBlocks, prune: float) -> SlimBlocks:
    """Without the weights of at most `prune` in size, and without the features that have no other."""
    if prune <= 0:
        return blocks
    bits = (blocks.lanes[:, :, None] >> np.arange(LANES, dtype=np.uint16)) & 1
    kept = np.abs(blocks.value) > prune
    bits[bits != 0] = kept
    lanes = (bits << np.arange(LANES, dtype=np.uint16)).sum(axis=2, dtype=np.uint16)
    known = lanes.any(axis=1)
    node = np.repeat(np.arange(len(blocks.bias)), np.diff(blocks.first))
    counts = np.bincount(node[known] + 1, minlength=len(blocks.first))
    return _slim_blocks(counts, blocks.feature[known], lanes[known], blocks.value[kept], blocks.bias)


def _slim_blocks(counts, feature, lanes, value, bias) -> SlimBlocks:
    sizes = np.bitwise_count(lanes).sum(axis=1, dtype=np.int64)
    if len(value) >= 1 << 32:
        raise ValueError(f"the slim model has {len(value)} weights, more than a file can hold: prune it.")
    begin = (np.cumsum(sizes) - sizes).astype(np.uint32)
    return SlimBlocks(np.cumsum(counts), feature, begin, lanes, value, bias)
