"""Running processes by their id: the name, the working directory and the arguments.

Linux has them in files under `/proc`. psutil, which comes with the embedded PostgreSQL, asks macOS.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec


class RunningProcess(msgspec.Struct, frozen=True):
    """A process. `folder` is None if this user may not read its working directory."""

    name: str
    folder: Path | None
    arguments: tuple[str, ...]


def find_process(pid: int) -> RunningProcess | None:
    """Return the process with this id, or None if there is none or it has ended."""
    return read_proc(pid) if sys.platform == "linux" else ask_psutil(pid)


def exists(pid: int) -> bool:
    """Return whether a process has this id, also one that has ended and is not yet collected."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def read_proc(pid: int) -> RunningProcess | None:
    """Return the process as Linux describes it in `/proc`."""
    process = Path(f"/proc/{pid}")
    try:
        name = (process / "comm").read_text().strip()
        arguments = (process / "cmdline").read_bytes().split(b"\0")
        try:
            # A deleted folder ends in " (deleted)", so a new one of its name is not mistaken for it.
            folder = (process / "cwd").readlink()
        except PermissionError:
            folder = None
    except OSError:
        return None
    return RunningProcess(name, folder, tuple(os.fsdecode(each) for each in arguments))


def ask_psutil(pid: int) -> RunningProcess | None:
    """Return the process as psutil describes it."""
    import psutil

    try:
        process = psutil.Process(pid)
        name, arguments = process.name(), tuple(process.cmdline())
        try:
            folder = Path(process.cwd())
        except psutil.AccessDenied:
            folder = None
    except (psutil.Error, OSError):
        return None
    return RunningProcess(name, folder, arguments)
