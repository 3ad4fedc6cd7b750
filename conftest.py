"""Modules that require an extra are left out where it is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("fastapi") else ["src/manyclass/serve/*", "tests/serve/*"]


def pytest_report_header() -> str:
    """Say so."""
    return "tests of the service left out: pip install 'manyclass[serve]'" if collect_ignore_glob else ""
