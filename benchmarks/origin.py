"""When, with which sources and on what machine something was measured."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]  # of the repository


def commit() -> str:
    """The commit of the sources, with a plus if they have changed since; unknown outside a checkout."""
    printed = []
    for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", "src", "benchmarks/*.py"]):
        try:
            done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        except OSError:
            return "unknown"
        if done.returncode:
            return "unknown"
        printed.append(done.stdout.strip())
    return printed[0] + ("+" if printed[1] else "")


def when() -> str:
    """The commit of the sources and the date of today, for pages of results."""
    return f"commit {commit()}, {datetime.now(UTC):%Y-%m-%d}"


def machine() -> dict[str, Any]:
    """The processor and the versions of the packages."""
    versions = {name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")}
    return {"machine": _processor(), "python": platform.python_version(), "versions": versions}


def _processor() -> str:
    names = [platform.processor() or platform.machine()]
    try:
        facts = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
        names += [value.strip() for key, value in facts.items() if key.strip() == "model name"]
    except OSError:
        pass
    memory = physical_bytes()
    size = f", {memory / 2**30:.0f} GiB" if memory else ""
    return f"{names[-1]}, {os.cpu_count()} cores{size}, {platform.system()}"


def physical_bytes() -> int | None:
    """The memory of the machine, if the system reports it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
