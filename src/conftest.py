"""Examples in docstrings that need packages of an extra are left out if these are not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["manyclass/torch/*"]
if not find_spec("triton"):
    collect_ignore_glob.append("manyclass/torch/fused.py")
