"""Compare two checkouts of the source tree by the processor time of operations on embedded tables.

    python -m benchmarks.checkouts.compare BEFORE [AFTER] [--runs 20] [--core 1]

BEFORE and AFTER are checkouts with their environments (`make setup`); AFTER is this one unless given. Each
run starts one process for each of them and measures the slices of both in turns, because the machine's other
work changes from second to second. The figure of a run is the median of its slices, and the ratio is one of
the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
MODULE: Final = "benchmarks.checkouts.table_costs"


class Cost(NamedTuple):
    """One operation: what it cost in each run, in microseconds, and the ratios of the runs."""

    name: str
    before: list[float]
    after: list[float]

    @property
    def ratios(self) -> list[float]:
        return [after / before for before, after in zip(self.before, self.after, strict=True)]


class Process:
    """A process that measures slices with the Holdfast of one checkout."""

    def __init__(self, process: subprocess.Popen[str], checkout: Path) -> None:
        self._process = process
        found, *self.names = self._read_line().split("\t")
        if Path(found) != checkout:
            raise SystemExit(
                f"Invalid checkout {checkout}: its environment uses {found}. Run make setup there."
            )

    def measure(self, name: str) -> float:
        """Return the microseconds of one operation, from one slice."""
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return float(self._read_line())

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("The measuring process ended: its error is above.")
        return line.strip()


def compare(
    before: Path, after: Path, *, runs: int, slices: int, items: int, names: list[str] | None = None
) -> list[Cost]:
    """Return the cost of each operation in both checkouts; of all without `names`."""
    found: dict[str, Cost] = {}
    for run in range(runs):
        # In turns: two processes of the same program differ too.
        first, second = (before, after) if run % 2 == 0 else (after, before)
        with _start(first, items) as one, _start(second, items) as other:
            pair = (one, other) if run % 2 == 0 else (other, one)
            for name in names or one.names:
                cost = found.setdefault(name, Cost(name, [], []))
                medians = _measure_in_turns(pair, name, slices)
                cost.before.append(medians[0])
                cost.after.append(medians[1])
        print(f"run {run + 1} of {runs}", file=sys.stderr)
    return list(found.values())


def _measure_in_turns(pair: tuple[Process, Process], name: str, slices: int) -> list[float]:
    """Return the median of the slices of one operation, for each of the two processes."""
    figures = [[process.measure(name) for process in pair] for _ in range(slices + 1)]
    # The first slice is a warm-up.
    return [statistics.median(each) for each in zip(*figures[1:], strict=True)]


@contextmanager
def _start(checkout: Path, items: int) -> Iterator[Process]:
    """Run a measuring process for the time of the block."""
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"Invalid checkout {checkout}: it has no environment. Run make setup there.")
    with subprocess.Popen(
        [python, "-m", MODULE, str(items)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Process(process, checkout)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def format_table(costs: list[Cost]) -> str:
    """Return the costs as a table: medians with quartiles, in microseconds, and the median of the ratios."""
    lines = ["| operation | before, µs | after, µs | ratio |", "|---|---|---|---|"]
    for cost in costs:
        figures = [_format(each, 1) for each in (cost.before, cost.after)]
        lines.append(f"| {cost.name} | {' | '.join(figures)} | {_format(cost.ratios, 3)} |")
    return "\n".join(lines)


def _format(figures: list[float], digits: int) -> str:
    """Return the median, with the quartiles in parentheses."""
    low, middle, high = _compute_quartiles(figures)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def _compute_quartiles(figures: list[float]) -> list[float]:
    return statistics.quantiles(figures, n=4, method="inclusive") if len(figures) > 1 else figures * 3


def main() -> None:
    """Compare the checkouts that the command line names, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--slices", type=int, default=15, help="slices of each operation in a run")
    parser.add_argument("--items", type=int, default=10_000, help="items of the table, of 1 KB each")
    parser.add_argument("--core", type=int, help="run on this core alone")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure only this operation")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    costs = compare(
        options.before.resolve(),
        options.after.resolve(),
        runs=options.runs,
        slices=options.slices,
        items=options.items,
        names=options.only,
    )
    print(json.dumps([each._asdict() for each in costs]) if options.json else format_table(costs))


if __name__ == "__main__":
    main()
