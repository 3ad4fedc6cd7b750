"""`manyclass classes`: add, remove, rename or merge the classes of a model file."""

from collections.abc import Sequence
from typing import Any

from ..trained import Trained, open_model
from .files import check_model_name, only_writer
from .messages import CommandError, note


def run(
    model: str,
    add: Sequence[str] | None,
    remove: Sequence[str] | None,
    rename: Sequence[str] | None,
    merge: Sequence[str] | None,
    output: str | None,
) -> None:
    """Change the classes of a model and write it."""
    target = output or model
    check_model_name(target)
    with only_writer(target):
        trained = open_model(model)
        clf = trained.estimator
        had_sets = "conformal" in clf._state
        if not (add or remove or rename or merge):
            raise CommandError("nothing to do: give --add, --remove, --rename or --merge.")
        if add:
            clf.add_classes(trained.as_labels(add))
            trained.names = clf._names
        if rename:
            clf.rename_classes(_pairs("--rename", rename, trained))
        if merge:
            clf.merge_classes(_pairs("--merge", merge, trained))
        if remove:
            clf.remove_classes(trained.as_labels(remove))
        trained.names = clf._names
        trained.save(target, slim=clf._slim, precision=clf._precision)
    print(f"{target}: {clf._index.n_current:,} classes")
    if had_sets and "conformal" not in clf._state:
        note("manyclass: the threshold of `predict --set` no longer holds and was removed.")


def _pairs(option: str, given: Sequence[str], trained: Trained) -> dict[Any, Any]:
    """OLD=NEW as a dictionary. A label that contains = is found by trying each of them."""
    known = set(map(str, trained.labels(slice(None))))
    out = {}
    for pair in given:
        cuts = [at for at, character in enumerate(pair) if character == "="]
        old = [pair[:at] for at in cuts if pair[:at] in known]
        if not cuts or len(old) > 1:
            raise CommandError(f"{option} {pair}: write OLD=NEW.")
        at = len(old[0]) if old else cuts[0]
        if pair[:at] in out:
            raise CommandError(f"{option} {pair}: {pair[:at]} is given twice.")
        out[pair[:at]] = pair[at + 1 :]
    return dict(zip(trained.as_labels(list(out)), trained.as_labels(list(out.values())), strict=True))
