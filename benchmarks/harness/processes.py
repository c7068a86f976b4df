"""Run child processes under measurement, and terminate them at the end of the block."""

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
SETTING_PREFIXES = ("HOLDFAST_", "PAGW_", "RP_MW_", "RICHPANEL_")
LOG_FILE = "log.txt"
HOLDFAST = (sys.executable, "-m", "holdfast")


@contextmanager
def run_server(*command: str, folder: Path, **environ: str) -> Iterator[str]:
    """Run a server in `folder` and yield the URL that it prints when ready. Raise if it exits before."""
    with run_process(*command, folder=folder, **environ) as process:
        yield _read_address(process, folder / LOG_FILE)


@contextmanager
def run_process(*command: str, folder: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process in `folder`, with `environ` as further variables, until the end of the block.

    Its standard output can be read; its standard error goes to a log file in the folder.
    """
    with (
        (folder / LOG_FILE).open("a") as log,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**_build_environment(), **environ},
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


def _build_environment() -> dict[str, str]:
    """Return the environment without the caller's settings, and with a path to import the benchmarks from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTING_PREFIXES)}
    return {**kept, "PYTHONPATH": str(Path(__file__).parents[2])}


def _read_address(process: subprocess.Popen[str], log: Path) -> str:
    """Return the first URL that the process prints. Raise `RuntimeError` with its log if it exits before."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := ADDRESS.search(line):
            return found[0]
    raise RuntimeError(f"The server exited before it was ready: {log.read_text()}")
