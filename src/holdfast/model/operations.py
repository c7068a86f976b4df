"""What every operation of the model is: a frozen value that one store runs, with a known result.

Builders (`reads.py`, `writes.py`) make them; `runtime` hands their request to an engine and their answer back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

if TYPE_CHECKING:
    from holdfast.model.declaration import Declaration
    from holdfast.model.tables import Index, Table

R_co = TypeVar("R_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)

PhysicalName = Callable[["Table"], str]


@dataclass(frozen=True)
class Operation(ABC, Generic[R_co]):
    """One thing to do on one store; `R_co` is what running it gives. `pattern` is who made it."""

    store: ClassVar[str] = "tables"
    writes: ClassVar[bool] = False

    pattern: str | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name of what is done, as DynamoDB calls it."""

    @property
    def table(self) -> Table | None:
        return None

    @property
    def index(self) -> Index | None:
        return None

    @property
    def parts(self) -> tuple[Operation[Any], ...] | None:
        """What it is put together of, where it is: each part may come from a pattern of its own."""
        return None

    @property
    def made_by(self) -> str | None:
        """The pattern it is metered under: its own, or those of its parts."""
        if self.pattern is not None or not self.parts:
            return self.pattern
        return "+".join(dict.fromkeys(part.pattern for part in self.parts if part.pattern)) or None

    def by_pattern(self, pattern: str) -> Self:
        """The same operation, made by a pattern. What cannot be run at all is refused here, at the call."""
        # A copy of its members: what was checked when it was made is not checked again.
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, pattern=pattern)
        return made


@dataclass(frozen=True)
class EntityOperation(Operation[R_co]):
    """An operation on one entity of one table."""

    declaration: Declaration

    @property
    def table(self) -> Table:
        return self.declaration.table


@dataclass(frozen=True)
class Write(EntityOperation[R_co]):
    """An operation that may stand in a transaction."""

    writes: ClassVar[bool] = True


@dataclass(frozen=True)
class EngineOperation(Operation[R_co]):
    """An operation of a store other than tables: it makes one request and reads its answer."""

    @property
    @abstractmethod
    def resource(self) -> str:
        """The logical name of the queue or bucket."""

    @abstractmethod
    def request(self, environment: str) -> Any:
        """What the store's engine is asked, with the names of an environment."""

    @abstractmethod
    def answer(self, result: Any) -> R_co:
        """What the caller is given of the engine's answer."""


@dataclass(frozen=True)
class Page(Sequence[T_co]):
    """Items, and where the next ones are. `units` is what reading them consumed, `examined` how many were read."""

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
    """How many items there are, over all pages."""

    count: int
    examined: int
    units: float

    def __int__(self) -> int:
        return self.count
