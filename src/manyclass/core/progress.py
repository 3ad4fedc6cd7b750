"""Progress on standard error."""

import sys
import time


class Progress:
    """Prints the progress of training at most once per second, and a last line at the end, if `verbose`."""

    def __init__(self, verbose: int | bool, title: str, n_rows: int, unit: str = "rows"):
        self._verbose, self._title, self._n_rows, self._unit = bool(verbose), title, n_rows, unit
        self._done, self._begun = 0, time.perf_counter()
        self._last = self._begun

    def advance(self, n_rows: int, error: float = float("nan")) -> None:
        """Count rows as done; `error` is the progressive error so far, NaN if unknown."""
        self._done += n_rows
        now = time.perf_counter()
        if self._verbose and (now - self._last >= 1.0 or self._done >= self._n_rows):
            self._last = now
            speed = self._done / max(now - self._begun, 1e-9)
            known = "" if error != error else f", progressive error {100 * error:.1f} %"
            text = f"{self._title}: {self._done:,}/{self._n_rows:,} {self._unit}, {speed:,.0f} {self._unit}/s{known}"
            print(text, file=sys.stderr, flush=True)
