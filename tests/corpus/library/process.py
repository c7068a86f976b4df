"""A simulated process that dies in the middle of its work: nothing it does later reaches the stores."""

from __future__ import annotations

from typing import Any

from holdfast import Stores
from holdfast.runtime.engines import Engines


class Killed(BaseException):
    """Raised for every request to the tables after the process died."""


class DyingTables:
    """Tables engine that answers until it is killed; after that it raises `Killed`.

    It is killed by `kill`, after `requests_left` requests, or after an operation of a class in `last`.
    """

    def __init__(self, tables: Any) -> None:
        self._tables = tables
        self.requests_left: int | None = None
        self.last: tuple[type, ...] = ()

    def kill(self) -> None:
        self.requests_left = 0

    async def run(self, operation: Any) -> Any:
        """Run the operation, unless the process is dead; then raise `Killed`."""
        if self.requests_left is not None:
            if self.requests_left <= 0:
                raise Killed
            self.requests_left -= 1
        result = await self._tables.run(operation)
        if isinstance(operation, self.last):
            self.kill()
        return result


class DeadlyQueues:
    """Queue engine that runs one operation and then kills the process."""

    def __init__(self, queues: Any, tables: DyingTables) -> None:
        self._queues, self._tables = queues, tables

    async def run(self, operation: Any) -> Any:
        result = await self._queues.run(operation)
        self._tables.kill()
        return result

    def close(self) -> None:
        """Leave the queues open: they belong to other stores."""


class RefusingQueues:
    """Queue engine that answers every operation with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def run(self, operation: Any) -> Any:
        raise self._error

    def close(self) -> None:
        """Do nothing: nothing is open."""


def replace_engines(stores: Stores, *, tables: Any = None, queues: Any = None) -> Stores:
    """Return the same stores with other tables or other queues."""
    return Stores(
        tables or stores.tables,
        system=stores.system,
        environment=stores.environment,
        clock=stores.clock,
        engines=stores.engines if queues is None else Engines({"queues": lambda: queues}),
    )


def make_dying_process(stores: Stores) -> tuple[Stores, DyingTables]:
    """Return the stores of a process that can be killed, and its tables."""
    tables = DyingTables(stores.tables)
    return replace_engines(stores, tables=tables), tables


def hide_machine(stores: Stores) -> None:
    """Keep the name of this machine out of the tables file.

    The lease of the background worker would contain it.
    """
    tables: Any = stores.tables
    tables._worker._leases.owner = "a process of the corpus"
