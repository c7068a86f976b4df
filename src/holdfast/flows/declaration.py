"""The parts of a flow's declaration: states, steps, waits and answers; and a step's argument and result.

    State("initiated", Step("EmbedAndRetrieve", embed_and_retrieve, to=("retrieved", "failed")))
    State(
        "options_presented",
        Wait({"choose": Answer(choose, to=("selected",))}, deadline_s=1800, deadline_to="cancelled"),
    )
    State("confirmed")  # an end state

`flow.Flow` combines them and `checks` validates them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar

from holdfast.flows.item import FlowItem
from holdfast.model.operations import Write
from holdfast.runtime import Stores

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item
I_co = TypeVar("I_co", bound=FlowItem, covariant=True)

# A step that has not ended after this time is cancelled, and sent again.
TIMEOUT_S: Final = 120.0
# A step is delayed for transient errors at most this long before it counts as failed.
MAX_DELAY_S: Final = 24 * 3600.0


@dataclass(frozen=True)
class Next:
    """The result of a step: the next state, changes of the item, and writes for the same transaction.

    `changes` use Python names; None removes an attribute. `deadline_s` overrides the declared deadline of the
    wait that it leads to.
    """

    state: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    writes: Sequence[Write[Any]] = ()
    deadline_s: float | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class StepContext(Generic[I_co]):
    """The argument of a step. `attempt` counts from 1 in each state; `tools` are the worker's."""

    item: I_co
    stores: Stores
    key: str
    now: datetime
    attempt: int = 1
    tools: Any = None


StepFunction: TypeAlias = Callable[[StepContext[Any]], Awaitable[Next]]
FailureFunction: TypeAlias = Callable[[StepContext[Any], Exception], "Next | Awaitable[Next]"]
RetryFunction: TypeAlias = Callable[[StepContext[Any], Exception], Sequence[Write[Any]]]
AnswerFunction: TypeAlias = Callable[[StepContext[Any], Mapping[str, Any]], "Next | Awaitable[Next]"]
DeadlineFunction: TypeAlias = Callable[[StepContext[Any]], "Next | Awaitable[Next]"]
CancelFunction: TypeAlias = Callable[[StepContext[Any], str], "Next | Awaitable[Next]"]


@dataclass(frozen=True)
class Retry:
    """Errors after which a step is retried: `max_attempts` attempts in all, with growing delays."""

    errors: type[Exception] | tuple[type[Exception], ...]
    max_attempts: int = field(default=3, kw_only=True)
    retry_delay_s: float = field(default=1.0, kw_only=True)
    max_retry_delay_s: float = field(default=60.0, kw_only=True)

    @property
    def classes(self) -> tuple[type[Exception], ...]:
        """The error classes as a tuple."""
        return self.errors if isinstance(self.errors, tuple) else (self.errors,)


@dataclass(frozen=True)
class Step:
    """A state's automatic action: `run` chooses one of the states in `to`.

    An error that a `Retry` names is retried. One that none names, or that persists, goes to `on_failure`;
    without that, the flow is parked. `on_retry` returns writes for the transaction that records a failed
    attempt, such as an audit entry. `timeout_s` must be longer than the step ever takes.
    """

    name: str
    run: StepFunction
    to: tuple[str, ...] = field(kw_only=True)
    retries: tuple[Retry, ...] = field(default=(), kw_only=True)
    on_failure: FailureFunction | None = field(default=None, kw_only=True)
    on_retry: RetryFunction | None = field(default=None, kw_only=True)
    timeout_s: float = field(default=TIMEOUT_S, kw_only=True)
    max_delay_s: float = field(default=MAX_DELAY_S, kw_only=True)


@dataclass(frozen=True)
class Answer:
    """One answer that a wait accepts. If `run` raises `InvalidRequest`, the wait stays as it is."""

    run: AnswerFunction
    to: tuple[str, ...] = field(kw_only=True)


@dataclass(frozen=True)
class Wait:
    """A wait for a person or a time; nothing is held open. After `deadline_s` the flow goes to `deadline_to`.

    If `deadline_to` names several states, `on_deadline` chooses one. `deadline_from_next` says that steps
    leading here set the deadline with `Next(deadline_s=…)`; the declared one is the default. Without answers
    it is a timer; without a deadline it waits for ever. `answered_by` says who is asked, for operators: a
    text such as `the approver`, or a function of the item that returns one.
    """

    answers: Mapping[str, Answer] = field(default_factory=dict)
    deadline_s: float | None = field(default=None, kw_only=True)
    deadline_from_next: bool = field(default=False, kw_only=True)
    on_deadline: DeadlineFunction | None = field(default=None, kw_only=True)
    deadline_to: str | tuple[str, ...] | None = field(default=None, kw_only=True)
    name: str = field(default="", kw_only=True)
    answered_by: str | Callable[[Any], str | None] = field(default="", kw_only=True)

    def describe_answerer(self, item: Any) -> str:
        """Return who is asked in this item's wait; empty if the wait does not say."""
        named = self.answered_by if isinstance(self.answered_by, str) else self.answered_by(item)
        return named or ""

    @property
    def deadline_states(self) -> tuple[str, ...]:
        """States that the deadline may lead to."""
        if self.deadline_to is None:
            return ()
        return (
            (self.deadline_to,)
            if isinstance(self.deadline_to, str)
            else tuple(dict.fromkeys(self.deadline_to))
        )


@dataclass(frozen=True)
class State:
    """One state. Without a step and a wait it is an end, and with `is_failure` an unsuccessful one.

    `shown_as` is the value that others see, in the attribute `Flow(shown_attribute=…)`.
    """

    name: str
    action: Step | Wait | None = None
    shown_as: Any = field(default=None, kw_only=True)
    is_failure: bool = field(default=False, kw_only=True)

    @property
    def is_end(self) -> bool:
        """True if the state has neither a step nor a wait."""
        return self.action is None

    @property
    def to(self) -> tuple[str, ...]:
        """Every state that may follow, except by cancellation."""
        if self.action is None:
            return ()
        if isinstance(self.action, Step):
            return tuple(dict.fromkeys(self.action.to))
        answers = (target for answer in self.action.answers.values() for target in answer.to)
        return tuple(dict.fromkeys((*answers, *self.action.deadline_states)))

    @property
    def action_name(self) -> str | None:
        """The name of the step or wait; a wait without a name gets one from its state."""
        if self.action is None:
            return None
        return self.action.name or f"WaitIn_{self.name}"


@dataclass(frozen=True)
class Cancel:
    """The cancellation of a flow: from which states, and to which. `run` gets the reason."""

    run: CancelFunction
    from_states: tuple[str, ...] = field(kw_only=True)
    to: str = field(kw_only=True)
