"""`holdfast --help` against an application of two commands, each in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.harness.measurement import Figure, compare, measure_rate

# At most one and a half times as long as the small application.
MUST_REACH: Final = 1 / 1.5
# Five starts in each of seven rounds.
STARTS: Final = 5
# As the installed script `holdfast` does.
HOLDFAST: Final = "from holdfast.cli import main; main()"
SMALL_APP: Final = """
import typer

app = typer.Typer(add_completion=False)


@app.command()
def open(name: str, count: int = 1) -> None:
    "Open something."


@app.command()
def close(name: str, force: bool = False) -> None:
    "Close something."


app()
"""


def run(_: Path) -> Figure:
    """Compare the rates at which the two print their help."""
    return compare(
        "start of the command line",
        lambda: _measure_starts(HOLDFAST),
        lambda: _measure_starts(SMALL_APP),
        MUST_REACH,
    )


def _measure_starts(program: str) -> float:
    """Return how many processes of this program print its help per second."""
    words = [sys.executable, "-c", program, "--help"]
    return measure_rate(lambda: subprocess.run(words, stdout=subprocess.DEVNULL, check=True), STARTS)
