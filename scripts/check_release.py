"""Build wheel and sdist, install the wheel in an empty environment outside the checkout, and run the README there.

python scripts/check_release.py [--resolution highest|lowest-direct] [--python 3.12]
Requires the packages build and uv.
"""

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("manyclass/py.typed", "manyclass/datasets/wordnet-hypernym.npz.xz", "manyclass/datasets/WORDNET_LICENSE.txt")


def build(folder: Path) -> Path:
    """Build both archives from the checkout, check what they contain, and return the wheel."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        missing = [part for part in PARTS if part not in names]
        foreign = [name for name in names if not name.startswith(("manyclass/", "manyclass-"))]
        unpacked = sum(entry.file_size for entry in archive.infolist())
    if missing or foreign:
        raise SystemExit(f"the wheel lacks {missing} and has the foreign files {foreign}")
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[-1] for name in archive.getnames()}
    wanted = ("pyproject.toml", "README.md", "CITATION.cff", "conftest.py", "tests/conftest.py", "docs/conf.py")
    missing = [name for name in wanted if name not in inside]
    if missing:
        raise SystemExit(f"the sdist lacks {missing}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {unpacked / 1e6:.1f} MB installed")
    print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.2f} MB")
    return wheel


def uv(*arguments: object) -> str:
    """Run uv and return what it prints."""
    run = subprocess.run([sys.executable, "-m", "uv", *map(str, arguments)], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"uv {arguments[0]} {arguments[1]} failed:\n{run.stderr}")
    return run.stdout


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resolution", choices=["highest", "lowest-direct"], default="highest")
    parser.add_argument("--python", default=sys.executable, help="version or path, default: this one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        python = folder / "empty" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        uv("venv", "--python", options.python, folder / "empty")
        began = time.perf_counter()
        # The requirements of pyproject.toml count as direct here; those of a wheel would not.
        wanted = ["--python", python, "--resolution", options.resolution, "--extra", "cli"]
        uv("pip", "compile", *wanted, "--output-file", folder / "pins.txt", ROOT / "pyproject.toml")
        uv("pip", "install", "--python", python, "--requirement", folder / "pins.txt")
        uv("pip", "install", "--python", python, "--no-deps", wheel)
        seconds = time.perf_counter() - began
        site = next((folder / "empty").rglob("site-packages"))
        size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
        packages = json.loads(uv("pip", "list", "--python", python, "--format", "json"))
        print(f"installed {len(packages)} packages, {size / 1e6:.0f} MB, in {seconds:.0f} s ({options.resolution}):")
        print("  " + ", ".join(f"{package['name']} {package['version']}" for package in packages))
        # -P: the checkout is not on the path, so that the installed package is imported.
        (folder / "README.md").write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
        example = (
            "import doctest, manyclass; assert 'site-packages' in manyclass.__file__, manyclass.__file__; "
            "failed, tried = doctest.testfile('README.md', module_relative=False); "
            "assert tried and not failed; print(f'README: {tried} lines run')"
        )
        subprocess.run([python, "-P", "-c", example], check=True, cwd=folder)
        subprocess.run([python, "-P", "-m", "manyclass", "--version"], check=True, cwd=folder)


if __name__ == "__main__":
    main()
