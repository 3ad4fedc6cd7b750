"""When, by which sources and on what machine something was measured."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any


def commit() -> str:
    """The commit of these sources, with a plus where they were changed since; unknown outside a checkout."""
    here = Path(__file__).parent
    told = []
    for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", str(here.parent)]):
        try:
            done = subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True)
        except OSError:
            return "unknown"
        if done.returncode:
            return "unknown"
        told.append(done.stdout.strip())
    return told[0] + ("+" if told[1] else "")


def machine() -> dict[str, Any]:
    """What the numbers depend on besides the sources."""
    versions = {name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")}
    return {"machine": _processor(), "python": platform.python_version(), "versions": versions}


def _processor() -> str:
    names = [platform.processor() or platform.machine()]
    try:
        told = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
        names += [value.strip() for key, value in told.items() if key.strip() == "model name"]
    except OSError:
        pass
    memory = physical_bytes()
    size = f", {memory / 2**30:.0f} GiB" if memory else ""
    return f"{names[-1]}, {os.cpu_count()} cores{size}, {platform.system()}"


def physical_bytes() -> int | None:
    """The machine's memory, where the system says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
