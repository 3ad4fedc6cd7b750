"""What all scripts here share: that of the Recall Tree's scripts, with results in this folder."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "shared_report", Path(__file__).parent.parent / "recall_tree_2017" / "report.py"
)
assert _spec is not None and _spec.loader is not None
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
_shared.__file__ = __file__  # where `publish` puts its results

load_or_skip, load_tfidf, parse, publish = _shared.load_or_skip, _shared.load_tfidf, _shared.parse, _shared.publish
new_plot, save = _shared.new_plot, _shared.save
BLUE, ORANGE, GREEN, PURPLE, GREY = _shared.BLUE, _shared.ORANGE, _shared.GREEN, _shared.PURPLE, _shared.GREY
