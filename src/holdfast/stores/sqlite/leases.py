"""Leases on background work: it runs in one process at a time, the one that holds the lease in the file.

A holder renews its lease before it expires. A killed holder does not, and another process takes over after
the expiry. Because a holder may be slow rather than dead, each lease carries a token that only increases: a
unit of work calls `require_lease` first and is refused once another process has taken over.

A lease that expires later than one taken now belongs to a holder whose clock was ahead. It counts as free,
because otherwise its work would wait until the clock caught up.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import apsw

from holdfast.core.errors import LeaseLost
from holdfast.core.rng import make_hex_token
from holdfast.stores.sqlite.database import Database

# A store that uses leases runs this in its first migration.
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
# The row is kept, so that the next token is greater than all earlier ones.
_RELEASE = "UPDATE lease SET expires_at = 0 WHERE name = ?1 AND token = ?2"


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease held by one process.

    `token` increases each time the lease is taken; `expires_at` is in seconds since 1970.
    """

    name: str
    owner: str
    expires_at: float
    token: int


class Leases:
    """The leases in one file.

    `now` returns seconds since 1970; every process that uses the file must use the same clock and the same
    `seconds`.
    """

    def __init__(self, database: Database, now: Callable[[], float], *, seconds: float = 30.0) -> None:
        self._database, self._now, self._seconds = database, now, seconds
        self.owner = f"{os.uname().nodename}:{os.getpid()}:{make_hex_token(4)}"

    def take(self, name: str) -> Lease | None:
        """Take the lease, or return None while another process holds it.

        Only taking a free lease is a write.
        """
        held = self.holder(name)
        now = self._now()
        if held is not None and now < held.expires_at <= now + self._seconds:
            return None

        def take(connection: apsw.Connection) -> Lease | None:
            # Read the clock inside the transaction: a process that read it before another took the lease
            # would find the lease's end too far ahead.
            now = self._now()
            expires_at = now + self._seconds
            token = connection.execute(_TAKE, (name, self.owner, now, expires_at)).get
            return None if token is None else Lease(name, self.owner, expires_at, token)

        return self._database.write(take)

    def renew(self, lease: Lease) -> Lease:
        """Extend the lease from now.

        An expired one can be renewed until another process takes it; then raise `LeaseLost`.
        """
        expires_at = self._now() + self._seconds

        def extend(connection: apsw.Connection) -> Lease:
            if connection.execute(_RENEW, (lease.name, lease.token, expires_at)).get is None:
                raise LeaseLost(f"The lease {lease.name!r} was taken over by another process.")
            return Lease(lease.name, lease.owner, expires_at, lease.token)

        return self._database.write(extend)

    def release(self, lease: Lease) -> None:
        """Free the lease for others at once. Do nothing if another process has already taken it."""
        self._database.write(lambda connection: connection.execute(_RELEASE, (lease.name, lease.token)).get)

    def holder(self, name: str) -> Lease | None:
        """Return the lease of the current or the last holder, or None."""
        with self._database.read_connection() as connection:
            row = connection.execute(
                "SELECT name, owner, expires_at, token FROM lease WHERE name = ?", (name,)
            ).fetchone()
        return None if row is None else Lease(*row)


def require_lease(connection: apsw.Connection, lease: Lease) -> None:
    """Raise `LeaseLost` if another process has taken the lease over.

    A unit of work under a lease calls this first.
    """
    if connection.execute("SELECT token FROM lease WHERE name = ?", (lease.name,)).get != lease.token:
        raise LeaseLost(f"The lease {lease.name!r} was taken over by another process.")
