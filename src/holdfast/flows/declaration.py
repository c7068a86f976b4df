"""What a system says of a flow: its states, what leaves each of them, and what a step is given and gives.

    State("initiated", Step("EmbedAndRetrieve", embed_and_retrieve, to=("retrieved", "failed")))
    State("options_presented", Wait({"choose": Answer(choose, to=("selected",))}, deadline_s=1800, late_to="cancelled"))
    State("confirmed")                                                      an end

`flow.Flow` puts them together and `checks` looks whether they fit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar

from holdfast.flows.item import FlowItem
from holdfast.model import Write
from holdfast.runtime import Stores

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item
I_co = TypeVar("I_co", bound=FlowItem, covariant=True)

# How long nothing is heard of a step before it is sent again, and broken off where it still runs.
LIMIT_S: Final = 120.0
# How long a step is put off for errors that pass by themselves before it has failed.
PATIENCE_S: Final = 24 * 3600.0


@dataclass(frozen=True)
class Next:
    """Where a step leads: the state, what changes of the item (by Python names; None removes), and writes of tables that
    belong into the same transaction. `deadline_s` is that of the wait it leads to, where the declared one is not meant."""

    state: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    writes: Sequence[Write[Any]] = ()
    deadline_s: float | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Run(Generic[I_co]):
    """What a step is given. `attempt` counts from 1 in each state; `tools` are those of the worker."""

    item: I_co
    stores: Stores
    key: str
    now: datetime
    attempt: int = 1
    tools: Any = None


StepFunction: TypeAlias = Callable[[Run[Any]], Awaitable[Next]]
Otherwise: TypeAlias = Callable[[Run[Any], Exception], "Next | Awaitable[Next]"]
AnswerFunction: TypeAlias = Callable[[Run[Any], Mapping[str, Any]], "Next | Awaitable[Next]"]
LateFunction: TypeAlias = Callable[[Run[Any]], "Next | Awaitable[Next]"]
CancelFunction: TypeAlias = Callable[[Run[Any], str], "Next | Awaitable[Next]"]


@dataclass(frozen=True)
class Retry:
    """Errors after which a step is tried again: `tries` times in all, with pauses that grow."""

    errors: type[Exception] | tuple[type[Exception], ...]
    tries: int = field(default=3, kw_only=True)
    pause_s: float = field(default=1.0, kw_only=True)
    pause_s_max: float = field(default=60.0, kw_only=True)

    @property
    def classes(self) -> tuple[type[Exception], ...]:
        return self.errors if isinstance(self.errors, tuple) else (self.errors,)


@dataclass(frozen=True)
class Step:
    """What leaves a state by itself: `run` decides for one of the states in `to`.

    An error of a `Retry` is tried again; one that none names, or that lasted, goes to `otherwise`, and without that is
    parked. `limit_s` is longer than the step ever takes.
    """

    name: str
    run: StepFunction
    to: tuple[str, ...] = field(kw_only=True)
    retries: tuple[Retry, ...] = field(default=(), kw_only=True)
    otherwise: Otherwise | None = field(default=None, kw_only=True)
    limit_s: float = field(default=LIMIT_S, kw_only=True)
    patience_s: float = field(default=PATIENCE_S, kw_only=True)


@dataclass(frozen=True)
class Answer:
    """One thing that a wait may be answered with. `InvalidRequest` raised by `run` leaves the wait as it is."""

    run: AnswerFunction
    to: tuple[str, ...] = field(kw_only=True)


@dataclass(frozen=True)
class Wait:
    """Somebody is waited for, and nothing held open. After `deadline_s` it leads to `late_to`: where those are several,
    to the one that `late` decides for.

    `deadline_given` says that who leads here gives a deadline by `Next(deadline_s=…)`; the declared one is that of who
    gives none. Without answers it is a timer; without a deadline it waits for ever.
    """

    answers: Mapping[str, Answer] = field(default_factory=dict)
    deadline_s: float | None = field(default=None, kw_only=True)
    deadline_given: bool = field(default=False, kw_only=True)
    late: LateFunction | None = field(default=None, kw_only=True)
    late_to: str | tuple[str, ...] | None = field(default=None, kw_only=True)
    name: str = field(default="", kw_only=True)

    @property
    def late_states(self) -> tuple[str, ...]:
        """Where its deadline may lead to."""
        if self.late_to is None:
            return ()
        return (self.late_to,) if isinstance(self.late_to, str) else tuple(dict.fromkeys(self.late_to))


@dataclass(frozen=True)
class State:
    """One state. Without a step and a wait it is an end, and with `failure` one that is no success. `shown` is what others
    see of it, under `Flow(shows=…)`."""

    name: str
    does: Step | Wait | None = None
    shown: Any = field(default=None, kw_only=True)
    failure: bool = field(default=False, kw_only=True)

    @property
    def is_end(self) -> bool:
        return self.does is None

    @property
    def to(self) -> tuple[str, ...]:
        """Every state that follows by the declared ways, cancellation aside."""
        if self.does is None:
            return ()
        if isinstance(self.does, Step):
            return tuple(dict.fromkeys(self.does.to))
        answers = (target for answer in self.does.answers.values() for target in answer.to)
        return tuple(dict.fromkeys((*answers, *self.does.late_states)))

    @property
    def doing(self) -> str | None:
        """The step's name, or the wait's; of a wait that has none, one made of its state's."""
        if self.does is None:
            return None
        return self.does.name or f"WaitIn_{self.name}"


@dataclass(frozen=True)
class Cancel:
    """Who may be cancelled, and what becomes of it. `run` is called with the reason that was given."""

    run: CancelFunction
    frm: tuple[str, ...] = field(kw_only=True)
    to: str = field(kw_only=True)
