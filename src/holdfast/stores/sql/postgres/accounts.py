"""The operating-system user that the embedded server runs as, and what this process does in its name.

An ordinary user runs the server itself. PostgreSQL refuses to run as root: for root the server runs as the
user `pgserver`, which is added if it is missing. That user cannot enter root's private folders, and we never
change their permissions. Instead each of its programs is started inside the folder that it needs, and reaches
it as `/proc/self/cwd`: the kernel then does not check the folders above.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from holdfast.core.errors import SettingsError

with suppress(ModuleNotFoundError):  # on Windows, where this engine does not run
    import pwd

SERVER_USER_NAME: Final = "pgserver"
WORKING_DIRECTORY: Final = "/proc/self/cwd"


def get_server_uid() -> int:
    """Return the id of the user that the server runs as; for root, add the user `pgserver` if it is
    missing.
    """
    return _find_or_add_account().pw_uid if os.geteuid() == 0 else os.geteuid()


def get_server_gid() -> int:
    """Return the group id of the server's user; for root, add the user `pgserver` if it is missing."""
    return _find_or_add_account().pw_gid if os.geteuid() == 0 else os.getegid()


def get_user_name(user: int) -> str:
    """Return the name of a user, or its id if it has none."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def build_subprocess_arguments() -> dict[str, Any]:
    """Return the arguments with which `subprocess` runs a program as the server's user."""
    if os.geteuid() != 0:
        return {}
    return {"user": get_server_uid(), "group": get_server_gid(), "extra_groups": []}


def get_path_from_inside(folder: Path) -> str:
    """Return the path of `folder` for a program that runs as the server's user with `folder` as its working
    directory.
    """
    return WORKING_DIRECTORY if os.geteuid() == 0 else str(folder)


def give_to_server_user(path: Path) -> None:
    """Make the server's user the owner of the path, if this process is root."""
    if os.geteuid() != 0:
        return
    try:
        os.chown(path, get_server_uid(), get_server_gid(), follow_symlinks=False)
    except OSError as error:
        raise SettingsError(
            _format_unusable(f"root may not give {path} to its user {SERVER_USER_NAME}", error)
        ) from error


def interrupt(process: int) -> None:
    """Send SIGINT to a process of the server's user, if it has not ended yet."""
    try:
        os.kill(process, signal.SIGINT)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise SettingsError(
            _format_unusable(f"root may not stop a server of its user {SERVER_USER_NAME}", error)
        ) from error


def check_usable() -> None:
    """Raise `SettingsError` unless this process can run programs as the server's user."""
    try:
        _run_as_server_user("/bin/sh", "-c", ":")
    except OSError as error:
        raise SettingsError(
            _format_unusable(f"root may not become its user {SERVER_USER_NAME}", error)
        ) from error


def can_enter(folder: Path) -> bool:
    """Return whether the server's user can make the folder its working directory."""
    return _run_as_server_user("/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder))


def can_run(program: Path) -> bool:
    """Return whether the server's user can reach the program and run it; the program must support
    `--version`.
    """
    try:
        return _run_as_server_user(str(program), "--version")
    except OSError:
        return False


def _run_as_server_user(*command: str) -> bool:
    """Run a program as the server's user and return whether it succeeded.

    Raise `OSError` if it does not start.
    """
    quiet = subprocess.DEVNULL
    ended = subprocess.run(
        command, stdin=quiet, stdout=quiet, stderr=quiet, cwd="/", check=False, **build_subprocess_arguments()
    )
    return ended.returncode == 0


@cache
def _find_or_add_account() -> pwd.struct_passwd:
    """Return the account `pgserver`, added at the first call if it is missing."""
    if sys.platform != "linux":
        raise SettingsError("PostgreSQL does not run as root: run this as an ordinary user.")
    try:
        return pwd.getpwnam(SERVER_USER_NAME)
    except KeyError:
        return _add_account()


def _add_account() -> pwd.struct_passwd:
    """Add the user. If two processes do so at the same time, one is refused, and both find the user."""
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SERVER_USER_NAME]
    try:
        added = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SettingsError(_format_not_added("useradd is not installed")) from error
    try:
        return pwd.getpwnam(SERVER_USER_NAME)
    except KeyError:
        reason = (added.stderr.strip().splitlines() or ["useradd failed"])[-1]
        raise SettingsError(_format_not_added(reason.rstrip("."))) from None


def _format_not_added(reason: str) -> str:
    """Return the text of the error for an account that could not be added, with the remedy."""
    return (
        f"PostgreSQL does not run as root, and adding its user {SERVER_USER_NAME} failed ({reason}): run "
        "this as an "
        f"ordinary user, or add the user {SERVER_USER_NAME}."
    )


def _format_unusable(problem: str, error: OSError) -> str:
    """Return the text of the error for something that root may not do, with the remedy."""
    return (
        f"PostgreSQL does not run as root, and {problem} ({error.strerror}): run this as an ordinary user, "
        "or give root the capabilities CHOWN, DAC_OVERRIDE, KILL, SETGID and SETUID."
    )
