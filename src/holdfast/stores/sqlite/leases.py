"""Background work in one process at a time: whoever holds the lease in the file does it.

A holder renews its lease before it runs out; one that was killed does not, and after a while another process
takes over. Because a holder may be slow rather than dead, each lease carries a token that only grows: a unit
of work calls `require` first and is refused once somebody else has taken over.

A lease that ends later than one taken now is of a holder whose clock was ahead: it is free as well, or its
work would rest until the clock caught up.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import apsw

from holdfast.core.errors import LeaseLost
from holdfast.stores.sqlite.database import Database

# For the first migration of a store that uses leases.
CREATE_LEASES = """
    CREATE TABLE lease (
        name TEXT PRIMARY KEY, owner TEXT NOT NULL, expires_at REAL NOT NULL, token INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
"""

_TAKE = """
    INSERT INTO lease (name, owner, expires_at, token) VALUES (?1, ?2, ?4, 1)
    ON CONFLICT (name) DO UPDATE SET owner = ?2, expires_at = ?4, token = token + 1
    WHERE expires_at <= ?3 OR expires_at > ?4
    RETURNING token
"""
_RENEW = "UPDATE lease SET expires_at = ?3 WHERE name = ?1 AND token = ?2 RETURNING token"
# The row stays, so that the next token is greater than all before it.
_RELEASE = "UPDATE lease SET expires_at = 0 WHERE name = ?1 AND token = ?2"


@dataclass(frozen=True, slots=True)
class Lease:
    name: str
    owner: str
    expires_at: float
    token: int


class Leases:
    """`now` gives seconds since 1970; every process on the file must read the same clock and name the same
    `seconds`."""

    def __init__(self, database: Database, now: Callable[[], float], *, seconds: float = 30.0) -> None:
        self._database, self._now, self._seconds = database, now, seconds
        self.owner = f"{os.uname().nodename}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    def take(self, name: str) -> Lease | None:
        """None while another holds it. Asking costs a read; only taking it is a write."""
        held = self.holder(name)
        now = self._now()
        if held is not None and now < held.expires_at <= now + self._seconds:
            return None

        def take(connection: apsw.Connection) -> Lease | None:
            # Read in turn with the other takers: who looked at the clock before another took the lease would
            # find its end too far ahead.
            now = self._now()
            expires_at = now + self._seconds
            token = connection.execute(_TAKE, (name, self.owner, now, expires_at)).get
            return None if token is None else Lease(name, self.owner, expires_at, token)

        return self._database.write(take)

    def renew(self, lease: Lease) -> Lease:
        """One that ran out can still be renewed, as long as nobody took it."""
        expires_at = self._now() + self._seconds

        def prolong(connection: apsw.Connection) -> Lease:
            if connection.execute(_RENEW, (lease.name, lease.token, expires_at)).get is None:
                raise LeaseLost(f"the lease {lease.name!r} was taken over by another process")
            return Lease(lease.name, lease.owner, expires_at, lease.token)

        return self._database.write(prolong)

    def release(self, lease: Lease) -> None:
        """Lets another take it at once; nothing happens if one already has."""
        self._database.write(lambda connection: connection.execute(_RELEASE, (lease.name, lease.token)).get)

    def holder(self, name: str) -> Lease | None:
        """Who holds it, or held it last."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT name, owner, expires_at, token FROM lease WHERE name = ?", (name,)
            ).fetchone()
        return None if row is None else Lease(*row)


def require(connection: apsw.Connection, lease: Lease) -> None:
    """For a unit of work done under a lease: raises LeaseLost if another process has taken it over."""
    if connection.execute("SELECT token FROM lease WHERE name = ?", (lease.name,)).get != lease.token:
        raise LeaseLost(f"the lease {lease.name!r} was taken over by another process")
