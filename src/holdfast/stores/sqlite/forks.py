"""What a forked child must not touch.

SQLite connections and file locks do not survive a fork: a child that used its parent's could damage the file.
Whoever holds such things registers here; in a child `after_fork_in_child` is called on it, so that its next use
says so instead. This costs nothing at the uses themselves.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Protocol

import apsw

FORKED = "{path} was opened before this process was forked. Open it anew in the child (or use 'spawn')."


class ForkSensitive(Protocol):
    def connections(self) -> Sequence[apsw.Connection]: ...

    def after_fork_in_child(self) -> None: ...


_registered: weakref.WeakSet[ForkSensitive] = weakref.WeakSet()
_kept: list[Sequence[apsw.Connection]] = []


def register(holder: ForkSensitive) -> None:
    _registered.add(holder)


def _before() -> None:
    # A child frees the variables of threads it does not have. Closing the parent's connections there would
    # drop locks and run checkpoints on its behalf, so they are kept for the life of the child.
    _kept.append([connection for holder in list(_registered) for connection in holder.connections()])


def _in_parent() -> None:
    _kept.pop()


def _in_child() -> None:
    for holder in list(_registered):
        holder.after_fork_in_child()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
