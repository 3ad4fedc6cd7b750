"""The race: our estimators and the peers on the same rows in the same run; writes docs/race.md. See --help."""

import sys
from pathlib import Path

from benchmarks.race_command import main

if __name__ == "__main__":
    here = Path(__file__).parent
    sys.exit(main(None, here, here.parent.parent / "docs" / "race.md"))
