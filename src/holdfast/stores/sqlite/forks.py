"""Fork protection: keeps a forked child from using its parent's SQLite connections and file locks.

SQLite connections and file locks do not survive a fork: a child that used its parent's could damage the file.
Objects that hold them register here. In a child `after_fork_in_child` is called on each, so that its next use
raises an error. The uses themselves need no check.

Opening the same file again in the child does not help: SQLite's record of the parent's locks was copied with
the process, so SQLite would not acquire them again.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Protocol

import apsw

from holdfast.core.errors import SettingsError

FORKED = (
    "{path} was opened before this process was forked, and is unusable here. Open it after the fork, or "
    "start the process in another way ('spawn', 'forkserver')."
)


class ForkSensitive(Protocol):
    """An object that holds connections or file locks."""

    def connections(self) -> Sequence[apsw.Connection]:
        """Return all open connections."""
        ...

    def after_fork_in_child(self) -> None:
        """Make every further use in this forked child raise an error."""
        ...


_registered: weakref.WeakSet[ForkSensitive] = weakref.WeakSet()
inherited: set[str] = set()
_connections_before_fork: list[Sequence[apsw.Connection]] = []


def register(holder: ForkSensitive) -> None:
    """Protect the holder's connections at every fork from now on."""
    _registered.add(holder)


def unregister(holder: ForkSensitive) -> None:
    """End the protection of a holder that was closed."""
    _registered.discard(holder)


def refuse_inherited(path: str) -> None:
    """Raise `SettingsError` if the parent process had this file open at the fork."""
    if path in inherited:
        raise SettingsError(FORKED.format(path=path))


def _before_fork() -> None:
    """Keep a reference to every open connection, so that a child never closes one."""
    # A child frees the variables of threads it does not have. Closing the parent's connections then would
    # drop locks and run checkpoints on its behalf, so they are kept for the life of the child.
    _connections_before_fork.append(
        [connection for holder in list(_registered) for connection in holder.connections()]
    )


def _after_fork_in_parent() -> None:
    """Drop the references that were kept for the fork."""
    _connections_before_fork.pop()


def _after_fork_in_child() -> None:
    """Make every registered holder refuse further use."""
    for holder in list(_registered):
        holder.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
