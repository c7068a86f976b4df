"""Compare two checkouts by the processor time of an accepted PAGW request, over HTTP and on real files.

    python -m benchmarks.checkouts.accepted_requests BEFORE [AFTER] [--runs 10] [--connections 16]

BEFORE and AFTER are checkouts with their environments (`make setup`); AFTER is this one unless given. Each
run starts the API of both, each over files and a PostgreSQL of its own, and measures slices of both in turns:
every slice is the same number of requests, with bundles and keys of their own. The figure of a run is the
median of its slices. It is the processor time of the gateway's processes, threads and kernel included; that
of PostgreSQL has its own row. AFTER also runs in several processes on one port, compared with one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.checkouts.compare import ROOT, Cost, format_table
from benchmarks.harness.http_client import measure_request_rate
from benchmarks.harness.processes import run_process
from benchmarks.pagw import gateway

ACCEPTED: Final = 202
# The process clock of another process: the kernel's id is the complement of the process's, and a kind.
PROCESSOR_CLOCK: Final = 2


@dataclass
class Api:
    """The API of one checkout, running over a folder of its own."""

    folder: Path
    process: int
    token: str
    numbers: Iterator[int] = field(default_factory=itertools.count)
    url: str = ""

    def measure(self, count: int, connections: int) -> tuple[float, float]:
        """Accept this many requests; return the microseconds of the gateway and of PostgreSQL for each."""
        requests = gateway.build_submissions(self.token, self.numbers, count)
        before = self._read_times()
        measure_request_rate(self.url, requests, connections, status=ACCEPTED)
        after = self._read_times()
        own, database = ((then - now) / count * 1e6 for now, then in zip(before, after, strict=True))
        return own, database

    def _read_times(self) -> tuple[float, float]:
        """Return the processor seconds of the gateway's processes, and of PostgreSQL's."""
        own = [self.process, *_list_children(self.process)]
        return sum(map(_read_time, own)), sum(map(_read_time, _list_processes_in(self.folder / "postgres")))


def measure(
    before: Path, after: Path, *, runs: int, slices: int, requests: int, connections: int, processes: int
) -> list[Cost]:
    """Return the costs of a request in both checkouts, and of AFTER in several processes and in one."""
    many = f"{processes} processes against one"
    named = ("gateway", "PostgreSQL", many)
    costs = {name: Cost(name, [], []) for name in named}
    for run in range(runs):
        with ExitStack() as ends:
            one, other, several = (
                ends.enter_context(_start(checkout, number))
                for checkout, number in ((before, 1), (after, 1), (after, processes))
            )
            figures = _measure_in_turns((one, other, several), slices, requests, connections)
        (own, database), (own_after, database_after), (own_several, _) = figures
        _add(costs["gateway"], own, own_after)
        _add(costs["PostgreSQL"], database, database_after)
        _add(costs[many], own_after, own_several)
        print(f"run {run + 1} of {runs}", file=sys.stderr)
    return list(costs.values())


def _measure_in_turns(
    apis: tuple[Api, ...], slices: int, requests: int, connections: int
) -> list[tuple[float, float]]:
    """Return the medians of the slices of each API. The order changes, the first slice is a warm-up."""
    figures: dict[int, list[tuple[float, float]]] = {position: [] for position in range(len(apis))}
    for number in range(slices + 1):
        order = list(enumerate(apis))
        for position, api in order if number % 2 else reversed(order):
            figures[position].append(api.measure(requests, connections))
    return [
        (statistics.median(own for own, _ in each[1:]), statistics.median(other for _, other in each[1:]))
        for each in figures.values()
    ]


def _add(cost: Cost, before: float, after: float) -> None:
    cost.before.append(before)
    cost.after.append(after)


@contextmanager
def _start(checkout: Path, processes: int) -> Iterator[Api]:
    """Run the API of a checkout for the time of the block."""
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"Invalid checkout {checkout}: it has no environment. Run make setup there.")
    command = [str(python), "-m", "holdfast", "run", "pagw", "--component", "api", "--port", "0"]
    command += ["--processes", str(processes)] if processes > 1 else []
    with tempfile.TemporaryDirectory(prefix="holdfast-accepted-") as name:
        folder = Path(name).resolve()
        token = gateway.issue_client_token(folder)
        with run_process(*command, folder=folder, **gateway.build_environment(folder)) as process:
            api = Api(folder, process.pid, token)
            assert process.stdout is not None
            # Each process prints its line when it serves, all with the same address.
            lines = [process.stdout.readline() for _ in range(processes)]
            api.url = next((word for word in lines[-1].split() if word.startswith("http://")), "")
            if not api.url:
                raise SystemExit(f"The API of {checkout} did not start: {(folder / 'log.txt').read_text()}")
            yield api


def _read_time(process: int) -> float:
    """Return the processor seconds of a process and its threads; 0 if it has ended."""
    try:
        return time.clock_gettime(~process << 3 | PROCESSOR_CLOCK)
    except OSError:
        return 0.0


def _list_children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def _list_processes_in(folder: Path) -> list[int]:
    """Return the processes whose working directory is inside the folder: PostgreSQL's."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and Path(os.readlink(each / "cwd")).is_relative_to(folder):
                found.append(int(each.name))
        except OSError:
            continue
    return found


def main() -> None:
    """Compare the checkouts that the command line names, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--slices", type=int, default=5, help="slices of each API in a run")
    parser.add_argument("--requests", type=int, default=40, help="requests of a slice")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--processes", type=int, default=2, help="of AFTER, compared with one")
    options = parser.parse_args()
    costs = measure(
        options.before.resolve(),
        options.after.resolve(),
        runs=options.runs,
        slices=options.slices,
        requests=options.requests,
        connections=options.connections,
        processes=options.processes,
    )
    print(format_table(costs))


if __name__ == "__main__":
    main()
