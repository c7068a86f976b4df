"""Choose the user that the embedded server runs as.

An ordinary user runs the server itself. PostgreSQL refuses to run as root: for root the server runs as the
user `pgserver`, which is added if it is missing. That user cannot enter root's private folders, and we never
change their permissions. Instead each of its programs is started inside the folder that it needs, and reaches
it as `/proc/self/cwd`: the kernel then asks nothing of the folders above.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

from holdfast.core.errors import SettingsError

NAME: Final = "pgserver"
WORKING_DIRECTORY: Final = "/proc/self/cwd"


def server_user() -> int:
    """Return the id of the user that the server runs as."""
    return _account().pw_uid if os.geteuid() == 0 else os.geteuid()


def server_group() -> int:
    """Return the id of that user's group."""
    return _account().pw_gid if os.geteuid() == 0 else os.getegid()


def user_name(user: int) -> str:
    """Return the name of a user, or its id if it has none."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def as_server_user() -> dict[str, Any]:
    """Return the arguments by which `subprocess` runs a program as that user."""
    if os.geteuid() != 0:
        return {}
    return {"user": server_user(), "group": server_group(), "extra_groups": []}


def path_from_inside(folder: Path) -> str:
    """Return the path of `folder` for a program of that user whose working directory it is."""
    return WORKING_DIRECTORY if os.geteuid() == 0 else str(folder)


def give(path: Path) -> None:
    """Make that user the owner."""
    if os.geteuid() != 0:
        return
    try:
        os.chown(path, server_user(), server_group(), follow_symlinks=False)
    except OSError as error:
        raise SettingsError(_unusable(f"root may not give {path} to its user {NAME}", error)) from error


def interrupt(process: int) -> None:
    """Ask a process of that user to end, if it has not ended yet."""
    try:
        os.kill(process, signal.SIGINT)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise SettingsError(_unusable(f"root may not stop a server of its user {NAME}", error)) from error


def check_usable() -> None:
    """Raise `SettingsError` unless this process can run programs as that user."""
    try:
        _succeeds("/bin/sh", "-c", ":")
    except OSError as error:
        raise SettingsError(_unusable(f"root may not become its user {NAME}", error)) from error


def can_enter(folder: Path) -> bool:
    """Return whether that user can pass through every folder on this path."""
    return _succeeds("/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder))


def can_run(program: Path) -> bool:
    """Return whether that user can reach the program and run it; the program must know `--version`."""
    try:
        return _succeeds(str(program), "--version")
    except OSError:
        return False


def _succeeds(*command: str) -> bool:
    """Run a program as that user. Raise `OSError` if it does not begin."""
    quiet = subprocess.DEVNULL
    ended = subprocess.run(
        command, stdin=quiet, stdout=quiet, stderr=quiet, cwd="/", check=False, **as_server_user()
    )
    return ended.returncode == 0


@cache
def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return _add_account()


def _add_account() -> pwd.struct_passwd:
    """Add the user. Of two processes that do so at the same time one is refused, and both find it."""
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME]
    try:
        added = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SettingsError(_not_added("there is no useradd")) from error
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        reason = (added.stderr.strip().splitlines() or ["useradd failed"])[-1]
        raise SettingsError(_not_added(reason.rstrip("."))) from None


def _not_added(reason: str) -> str:
    return (
        f"PostgreSQL does not run as root, and its user {NAME} cannot be added ({reason}): run this as an "
        "ordinary user, or "
        f"add the user {NAME}."
    )


def _unusable(problem: str, error: OSError) -> str:
    return (
        f"PostgreSQL does not run as root, and {problem} ({error.strerror}): run this as an ordinary user, "
        "or give root the "
        "capabilities CHOWN, DAC_OVERRIDE, KILL, SETGID and SETUID."
    )
