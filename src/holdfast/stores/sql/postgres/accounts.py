"""Whose the embedded server is: ours, or where we are root, which PostgreSQL refuses to be, a user of its own."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

from holdfast.errors import SettingsError

NAME: Final = "pgserver"


def server_user() -> int:
    """The number of the user that the server runs as."""
    return _account().pw_uid if os.geteuid() == 0 else os.geteuid()


def as_server_user() -> dict[str, Any]:
    """What `subprocess` needs to run a program as that user."""
    if os.geteuid() != 0:
        return {}
    return {"user": _account().pw_uid, "group": _account().pw_gid, "extra_groups": []}


def give(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, _account().pw_uid, _account().pw_gid, follow_symlinks=False)


def open_the_way(folder: Path) -> None:
    """Lets that user pass through the folders above its own: pass, and neither list nor read."""
    if os.geteuid() != 0:
        return
    for above in folder.parents:
        mode = above.stat().st_mode
        if not mode & stat.S_IXOTH:
            above.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


@cache
def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return _made()


def _made() -> pwd.struct_passwd:
    """Of two processes that make it at the same time, one is refused; both find it then."""
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise SettingsError(_unmade("there is no useradd")) from error
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        raise SettingsError(_unmade(made.stderr.strip())) from None


def _unmade(reason: str) -> str:
    return (
        f"PostgreSQL does not run as root, and its user {NAME} cannot be made ({reason}): run this as another user, or add "
        f"the user {NAME}."
    )
