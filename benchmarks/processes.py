"""Processes that a benchmark measures: the real commands, each in a process of its own, ended with the block."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESS = re.compile(r"http://\S+?:\d+")
SETTINGS = ("HOLDFAST_", "PAGW_", "RP_MW_", "RICHPANEL_")
LOG = "log.txt"
HOLDFAST = (sys.executable, "-m", "holdfast")


@contextmanager
def served(*command: str, folder: Path, **environ: str) -> Iterator[str]:
    """A server; its URL, once it answers."""
    with started(*command, folder=folder, **environ) as process:
        yield _told_address(process, folder / LOG)


@contextmanager
def started(*command: str, folder: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A process in `folder`; its standard output can be read, its log is beside its data."""
    with (
        (folder / LOG).open("a") as log,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**_own_environment(), **environ},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _own_environment() -> dict[str, str]:
    """Without the settings of whoever runs the benchmark; the benchmarks are found from any folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    return {**kept, "PYTHONPATH": str(Path(__file__).parents[1])}


def _told_address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := ADDRESS.search(line):
            return found[0]
    raise RuntimeError(f"A server ended before it answered: {log.read_text()}")
