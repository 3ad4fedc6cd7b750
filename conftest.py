"""Modules that require an extra are left out where it is not installed."""

from importlib.metadata import PackageNotFoundError, version

# package that tells whether an extra is installed -> (the extra, its modules and tests)
_EXTRAS = {"fastapi": ("serve", "serve"), "distributed": ("dask", "distributed")}


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


_MISSING = [names for package, names in _EXTRAS.items() if not _is_installed(package)]

collect_ignore_glob = [f"{where}/{folder}/*" for _, folder in _MISSING for where in ("src/manyclass", "tests")]


def pytest_report_header() -> list[str]:
    """Say so."""
    return [f"tests in tests/{folder} left out: pip install 'manyclass[{extra}]'" for extra, folder in _MISSING]
