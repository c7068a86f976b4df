"""The base of all model operations: frozen values that one store runs, each with a typed result.

Builders (`reads.py`, `writes.py`) create them. `execute` sends the requests through a `Requester`, which is
the `Stores` of `runtime`, and decodes the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, overload

from holdfast.operations import tables as requests

if TYPE_CHECKING:
    from holdfast.model.entities.declaration import Declaration
    from holdfast.model.tables import Index, Table

__all__ = [
    "Count",
    "Operation",
    "Page",
    "Write",
]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)

PhysicalName = Callable[["Table"], str]


class Requester(Protocol):
    """Sends an operation's requests to the engines, and records the usage under its pattern."""

    def physical_name(self, table: Table) -> str: ...

    async def request_tables(self, operation: Operation[Any], request: requests.Operation[R]) -> R:
        """Send one request to the tables engine."""
        ...

    async def request_engine(self, operation: EngineOperation[Any]) -> Any:
        """Send the operation's request to the engine of its store."""
        ...


@dataclass(frozen=True)
class Operation(ABC, Generic[R_co]):
    """One action on one store; running it returns `R_co`.

    `pattern` is the id of the access pattern that built it.
    """

    store: ClassVar[str] = "tables"
    writes: ClassVar[bool] = False

    pattern: str | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def kind(self) -> str:
        """The operation's name in the store's API, such as GetItem."""

    @abstractmethod
    async def execute(self, requester: Requester) -> R_co:
        """Send as many requests as needed and return the caller's result."""

    @property
    def table(self) -> Table | None:
        return None

    @property
    def index(self) -> Index | None:
        return None

    @property
    def parts(self) -> tuple[Operation[Any], ...] | None:
        """The operations that this one combines, if any: each part may come from its own pattern."""
        return None

    @property
    def metered_pattern(self) -> str | None:
        """The pattern that usage is recorded under: its own, or those of its parts joined by `+`; None if
        unknown.
        """
        if self.pattern is not None or not self.parts:
            return self.pattern
        return "+".join(dict.fromkeys(part.pattern for part in self.parts if part.pattern)) or None

    def with_pattern(self, pattern: str) -> Self:
        """Return the same operation with a pattern id.

        An operation that cannot run raises here, at the call.
        """
        # Copies the fields without running the checks of __init__ again.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__, pattern=pattern)
        return copied


@dataclass(frozen=True)
class EntityOperation(Operation[R_co]):
    """An operation on one entity of one table."""

    declaration: Declaration

    @property
    def table(self) -> Table:
        return self.declaration.table


@dataclass(frozen=True)
class Write(EntityOperation[R_co]):
    """An operation that a transaction can contain."""

    writes: ClassVar[bool] = True


@dataclass(frozen=True)
class EngineOperation(Operation[R_co]):
    """An operation on a store other than tables: one request and one result."""

    async def execute(self, requester: Requester) -> R_co:
        return self.decode_result(await requester.request_engine(self))

    @property
    @abstractmethod
    def resource(self) -> str:
        """The logical name of the queue, bucket, table or key template."""

    @abstractmethod
    def build_request(self, environment: str) -> Any:
        """Return the engine's request, with the physical names of an environment."""

    @abstractmethod
    def decode_result(self, result: Any) -> R_co:
        """Return the caller's result, decoded from the engine's."""


@dataclass(frozen=True)
class Page(Sequence[T_co]):
    """Items and the cursor of the next page, None after the last.

    `units` is the capacity consumed, `examined` the number of items read.
    """

    items: tuple[T_co, ...] = ()
    cursor: str | None = None
    units: float = 0.0
    examined: int = 0

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | Sequence[T_co]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class Count:
    """The number of items over all pages."""

    count: int
    examined: int
    units: float

    def __int__(self) -> int:
        return self.count
