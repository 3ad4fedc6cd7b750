"""Who takes part in the race: our estimators and the peers, with what each can take."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from benchmarks.peers import PEERS
from benchmarks.sets import RaceSet

OURS = "manyclass"


@dataclass(frozen=True)
class Entrant:
    """One row of the tables."""

    name: str
    title: str
    family: str  # the package; one colour in the plots
    estimator: str = ""  # ours: the name of the class in manyclass
    options: Mapping[str, Any] = field(default_factory=dict)
    one_label: bool = True
    several: bool = False
    numbers: bool = True  # takes rows of numbers, not only of words
    text: bool = False  # takes the texts of the rows instead of their features
    n_test: int | None = None  # asked about so many test rows only

    @property
    def ours(self) -> bool:
        """Whether it is one of our estimators."""
        return self.family == OURS

    def takes(self, one: RaceSet) -> bool:
        """Whether the set is of a kind that it can learn."""
        kind = one.text if self.text else self.numbers or one.words
        return (self.several if one.several else self.one_label) and kind


def _both(name: str, title: str, family: str, numbers: bool = True) -> Entrant:
    return Entrant(name, title, family, several=True, numbers=numbers)


PAPER_MLOM = MappingProxyType({"centre": "median", "guests": False})

ENTRANTS: Mapping[str, Entrant] = MappingProxyType(
    {
        one.name: one
        for one in (
            Entrant("label-tree", "LabelTree", OURS, "LabelTreeClassifier", several=True),
            Entrant("recall-tree", "RecallTree", OURS, "RecallTreeClassifier"),
            Entrant("recall-tree-one-path", "RecallTree, beam=1", OURS, "RecallTreeClassifier", {"beam": 1}),
            Entrant("spectral-tree", "SpectralTree", OURS, "SpectralTreeClassifier", several=True),
            Entrant("lom-tree", "LomTree", OURS, "LomTreeClassifier"),
            Entrant("one-against-all", "OneAgainstAll", OURS, "OneAgainstAllClassifier"),
            Entrant("mlom-tree", "MlomTree", OURS, "MlomTreeClassifier"),
            Entrant("mlom-tree-paper", "MlomTree, the paper's", OURS, "MlomTreeClassifier", PAPER_MLOM),
            _both("pecos", "PECOS XR-Linear", "PECOS"),
            _both("napkinxc", "napkinXC PLT", "napkinXC"),
            _both("omikuji", "omikuji", "omikuji"),
            _both("omikuji-bonsai", "omikuji, Bonsai", "omikuji"),
            Entrant("vw-recall-tree", "VW recall_tree", "Vowpal Wabbit"),
            Entrant("vw-log-multi", "VW log_multi", "Vowpal Wabbit"),
            Entrant("vw-oaa", "VW oaa", "Vowpal Wabbit"),
            _both("vw-plt", "VW plt", "Vowpal Wabbit"),
            Entrant("fasttext-hs", "fastText, hs", "fastText", numbers=False),
            Entrant("fasttext-softmax", "fastText, softmax", "fastText", numbers=False),
            _both("fasttext-ova", "fastText, ova", "fastText", numbers=False),
            _both("sklearn-sgd", "SGDClassifier", "scikit-learn"),
            _both("sklearn-logistic", "LogisticRegression", "scikit-learn"),
            _both("sklearn-extra-trees", "ExtraTrees", "scikit-learn"),
            _both("sklearn-neighbours", "10 nearest neighbours", "scikit-learn"),
            Entrant("river-one-vs-rest", "River, one-vs-rest", "River", n_test=500),
            Entrant("river-hoeffding-tree", "River, Hoeffding tree", "River", n_test=500),
        )
    }
)


SCORED = 64  # hyperplanes that one of Vowpal Wabbit's trees changes for a row, at most or nearly so


def settings_of(entrant: Entrant, facts: Mapping[str, int], cap_seconds: float) -> dict[str, Any]:
    """The options that differ from the defaults, for a set of this size.

    Vowpal Wabbit gets a table with room for all weights that it can learn (at most 2^28, 4 GB), River a share of the
    time. `facts` are numbers of the training rows: n_features, n_classes, and n_values that are not zero.
    """
    if entrant.ours:
        return {"random_state": 0, **entrant.options}
    settings = {**PEERS[entrant.name].options, **entrant.options}
    if entrant.family == "Vowpal Wabbit":
        n_weights = facts["n_features"] * facts["n_classes"]
        if settings["learner"] != "oaa":
            n_weights = min(n_weights, SCORED * facts["n_values"])
        settings["bits"] = min(max(math.ceil(math.log2(n_weights)) + 1, 18), 28)
        settings["predict_passes"] = 3
    if entrant.family == "River":
        settings["seconds"] = round(0.25 * cap_seconds, 1)
    return settings
