"""Latency at a fixed rate, and the highest throughput, beside other services on the same rows.

    python benchmarks/serve/load.py                     100,000 classes, 60 s at 500 requests/s, then saturation
    python benchmarks/serve/load.py --seconds 3600      the long run
    python benchmarks/serve/load.py --quick             a check that all of it runs

Requests are sent when their time has come, whether or not earlier ones were finished; latency counts from that time.
Nine in ten are predictions, one in ten is learned. Client and service are two processes on this machine: run it idle.
"""

import argparse
import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers import PeerUnavailable
from benchmarks.serve.running import LOCAL, free_port, memory, running, texts, train, wait_for
from benchmarks.vw import find_vw

PLAIN = Path(__file__).with_name("plain_service.py")
VW_SERVICE = Path(__file__).with_name("vw_service.py")
BAR = 10.0  # ms
CALM = 0.01  # of the time of all cores
CLIENTS = 1, 8, 32  # that ask at the same time, for the highest throughput


class Connections:
    """Connections that stay open: HTTP/1.1 by hand, so that the client takes little of the machine."""

    def __init__(self, port: int):
        self.port, self.free = port, []

    async def post(self, path: str, body: bytes) -> int:
        """The status of the response."""
        reader, writer = None, None
        while self.free and reader is None:
            reader, writer = self.free.pop()
            if reader.at_eof():  # the service closes connections that nobody has used for a while
                writer.close()
                reader = None
        if reader is None:
            reader, writer = await asyncio.open_connection(LOCAL, self.port)
        head = f"POST {path} HTTP/1.1\r\nHost: {LOCAL}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        response = await reader.readuntil(b"\r\n\r\n")
        at = response.lower().index(b"content-length:") + 15
        await reader.readexactly(int(response[at : response.index(b"\r", at)]))
        self.free.append((reader, writer))
        return int(response[9:12])


def requests(n_classes: int, share: float, seed: int) -> list[tuple[str, bytes]]:
    """Requests to go through in turn."""
    rng, out = np.random.default_rng(seed), []
    for text, label in texts(20_000, n_classes, seed):
        learn = rng.random() < share
        body = {"text": text, **({"label": label} if learn else {"k": 5})}
        out.append(("/learn" if learn else "/predict", json.dumps(body).encode()))
    return out


async def at_rate(
    port: int, work: list[tuple[str, bytes]], rate: float, seconds: float
) -> tuple[list[tuple], list[float]]:
    """(path, status, second, latency in ms) of each request, and the share of each minute that others took.

    The status is 0 if there was no response.
    """
    pool, out, clocks = Connections(port), [], []
    start, tasks = time.perf_counter(), set()

    async def one(i: int, due: float) -> None:
        path, body = work[i % len(work)]
        try:
            status = await pool.post(path, body)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            status = 0
        out.append((path, status, due - start, 1e3 * (time.perf_counter() - due)))

    for i in range(int(rate * seconds)):
        due = start + i / rate
        if i % int(60 * rate) == 0:
            clocks.append(_clocks())
        if (pause := due - time.perf_counter()) > 0:
            await asyncio.sleep(pause)
        task = asyncio.create_task(one(i, due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    clocks.append(_clocks())
    return out, [float((b[7] - a[7]) / max(1, (b - a).sum())) for a, b in itertools.pairwise(clocks)]


def _clocks() -> np.ndarray:
    """The time of all cores so far by kind; the eighth is what the host of a virtual machine gave to others."""
    with open("/proc/stat") as file:
        return np.array(file.readline().split()[1:9], float)


async def saturated(port: int, work: list[tuple[str, bytes]], seconds: float, at_a_time: int = 8) -> float:
    """Responses per second of clients that ask again as soon as they have one."""
    pool, end, n = Connections(port), time.perf_counter() + seconds, 0

    async def client(first: int) -> None:
        nonlocal n
        i = first
        while time.perf_counter() < end:
            assert await pool.post(*work[i % len(work)]) == 200
            i, n = i + at_a_time, n + 1

    await asyncio.gather(*(client(i) for i in range(at_a_time)))
    return n / seconds


def vw_saturated(vw: list[str], folder: Path, n_classes: int, seconds: float) -> float | None:
    """Responses per second of VW's daemon for one client that sends the next text when it has the response.

    The package on PyPI has no daemon: it runs in `vw_service.py`.
    """
    port, model = free_port(), folder / "vw.model"
    rows = [f"{int(label.split()[1]) + 1} | {text}\n" for text, label in texts(50_000, n_classes, 0)]
    (folder / "rows.vw").write_text("".join(rows))
    kind = ["--log_multi", str(n_classes)]
    done = subprocess.run([*vw, *kind, "-b", "24", "-d", str(folder / "rows.vw"), "-f", str(model), "--quiet"])
    if done.returncode:
        return None
    use = ["-i", str(model), "-t", "--quiet", "--daemon", "--foreground", "--num_children", "1", "--port", str(port)]
    wheel = vw[-1] == "vowpalwabbit"  # from PyPI: it has no daemon
    daemon = subprocess.Popen([vw[0], str(VW_SERVICE), str(model), str(port)] if wheel else [*vw, *use])
    try:
        while daemon.poll() is None and not _listens(port):
            time.sleep(0.05)
        if daemon.poll() is not None:
            return None
        lines = [f" | {text}\n".encode() for text, _ in texts(5000, n_classes, 3)]
        n, end = 0, time.perf_counter() + seconds
        with socket.create_connection((LOCAL, port)) as connection, connection.makefile("rb") as responses:
            while time.perf_counter() < end:
                connection.sendall(lines[n % len(lines)])
                responses.readline()
                n += 1
        return n / seconds
    finally:
        daemon.kill()
        daemon.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOCAL, port)).close()
    except OSError:
        return False
    return True


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--folder", type=Path, default=None, help="where the model is kept; default: a temporary one")
    parser.add_argument("--peers", type=Path, default=os.environ.get("MANYCLASS_PEERS"), help="where VW is installed")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.classes, options.seconds = 500, 5
    burst = 3 if options.quick else 15
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = train(options.folder or folder, options.classes)
        mixed, single = requests(options.classes, 0.1, 1), requests(options.classes, 0.0, 2)
        with running(model, folder / "state") as (child, port):
            asyncio.run(at_rate(port, mixed, min(100, options.rate), 5))  # memory and caches before the measurement
            before = memory(child.pid)
            found, taken = asyncio.run(at_rate(port, mixed, options.rate, options.seconds))
            after = memory(child.pid)
            ours = [asyncio.run(saturated(port, single, burst, n)) for n in CLIENTS]
        print(f"{options.classes:,} classes, {options.rate:g} requests/s for {options.seconds:g} s\n")
        print("| request | n | p50 ms | p99 ms | p99.9 ms | max ms |\n|---|---:|---:|---:|---:|---:|")
        for path in ("/predict", "/learn"):
            own = np.array([ms for one, status, _, ms in found if one == path and status == 200])
            ms = np.percentile(own, [50, 99, 99.9, 100])
            print(f"| {path} | {len(own):,} | {' | '.join(f'{value:.2f}' for value in ms)} |")
        bad = Counter(status for _, status, _, _ in found if status != 200)
        print(f"\nerrors by status: {dict(bad)}; memory: {before:,.0f} MB before, {after:,.0f} MB after")
        print(_by_minute(found, taken))
        print(f"| service |{''.join(f' {n} at a time |' for n in CLIENTS)}\n|---|{'---:|' * len(CLIENTS)}")
        _print_rates("manyclass serve", ours)
        port = free_port()
        plain = subprocess.Popen([sys.executable, str(PLAIN), str(port), str(options.classes)], stdout=subprocess.PIPE)
        try:
            plain.stdout.readline()  # it is trained
            wait_for(port)
            rates = [asyncio.run(saturated(port, single, burst, n)) for n in CLIENTS]
            _print_rates("FastAPI + scikit-learn (TF-IDF, nearest row)", rates)
        finally:
            plain.kill()
            plain.wait()
        try:
            vw = find_vw(options.peers and Path(options.peers) / "vw")
        except PeerUnavailable as error:
            print(f"\nno daemon of VW: {error}")
            return
        rate = vw_saturated(vw, folder, options.classes, burst)
        kind = "in a socket server" if vw[-1] == "vowpalwabbit" else "daemon"
        print(f"\nVW {kind}, log_multi, one client: {'failed' if rate is None else f'{rate:,.0f}'} predictions/s")


def _by_minute(found: list[tuple], taken: list[float]) -> str:
    """In how many minutes the service was fast: other work on the machine shows in single minutes."""
    minutes: dict[int, list[float]] = {}
    for path, status, second, ms in found:
        if path == "/predict":
            minutes.setdefault(int(second // 60), []).append(ms if status == 200 else np.inf)
    p99 = {minute: float(np.percentile(own, 99, method="lower")) for minute, own in minutes.items()}
    calm = [minute for minute in p99 if taken[minute] <= CALM]
    groups = {"all minutes": list(p99), f"minutes in which others had at most {CALM:.0%} of the cores": calm}
    lines = ["p99 of /predict by minute:"]
    for name, own in groups.items():
        if own:
            fast, half = sum(p99[minute] <= BAR for minute in own), float(np.median([p99[minute] for minute in own]))
            lines.append(f"- {name}: at most {BAR:g} ms in {fast} of {len(own)}; median {half:.2f} ms")
    return "\n".join(lines) + f"\nmost of a minute that others had: {max(taken):.0%}\n"


def _print_rates(name: str, rates: list[float]) -> None:
    print(f"| {name} |{''.join(f' {rate:,.0f} |' for rate in rates)}", flush=True)


if __name__ == "__main__":
    main()
