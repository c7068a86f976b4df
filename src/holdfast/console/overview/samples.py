"""`Sample`: the figures of every system at one time, as they are stored.

Names of the fields are stored in the table of the samples. What is absent has its default.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = [
    "SQL_IDLE",
    "ActionState",
    "FlowState",
    "OutboxState",
    "ProcessState",
    "QueueState",
    "Rates",
    "Sample",
    "SystemSample",
    "decode_sample",
    "encode_sample",
]


SQL_IDLE: Final = "not started"
"""The reason of an embedded PostgreSQL that nobody uses: the console does not start it to look at it."""


class ProcessState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process: whether it answers, and which stores it finds not ready, each with a reason.

    `failure` says why it did not answer, `started_at` when it started, in epoch seconds; 0 if unknown.
    """

    url: str
    failure: str = ""
    not_ready: dict[str, str] = {}
    started_at: float = 0.0


class Rates(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened per second, over all processes of a system. Units are by table, messages by queue."""

    requests: float = 0.0
    failed_requests: float = 0.0
    operations: float = 0.0
    failed_operations: float = 0.0
    read_units: dict[str, float] = {}
    write_units: dict[str, float] = {}
    queue_requests: dict[str, float] = {}
    object_reads: float = 0.0
    object_writes: float = 0.0


class QueueState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The messages of a queue. `dead` is None without a dead-letter queue, `oldest_s` if it is unknown."""

    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
    dead: int | None = None
    oldest_s: float | None = None


class OutboxState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The messages of an outbox that are not sent."""

    pending: int = 0
    dead: int = 0
    oldest_s: float = 0.0


class ActionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Delayed actions: those that wait, and those that are due."""

    waiting: int = 0
    due: int = 0
    overdue_s: float = 0.0


class FlowState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The executions of a flow that have not ended: `for_person` wait for an answer, `parked` for an
    operator.
    """

    running: int = 0
    for_person: int = 0
    parked: int = 0
    overdue: int = 0


class SystemSample(msgspec.Struct, frozen=True, omit_defaults=True):
    """The figures of one system.

    `stores` has the reason of each that is not ready, empty for those that are. `rates` is None until a
    process was read twice. `unread` names what could not be read from the stores.
    """

    processes: list[ProcessState] = []
    stores: dict[str, str] = {}
    rates: Rates | None = None
    queues: dict[str, QueueState] = {}
    outboxes: dict[str, OutboxState] = {}
    actions: dict[str, ActionState] = {}
    flows: dict[str, FlowState] = {}
    open_breakers: list[str] = []
    unread: list[str] = []
    # Of the system's own pages to people.
    questions: int = 0


class Sample(msgspec.Struct, frozen=True):
    """The figures of every system at `at`, in epoch seconds."""

    at: float
    systems: dict[str, SystemSample] = {}


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Sample)


def encode_sample(sample: Sample) -> str:
    """Return the sample as JSON."""
    return _ENCODER.encode(sample).decode()


def decode_sample(text: str) -> Sample | None:
    """Return the sample of a JSON text; None for one that another version wrote in another form."""
    try:
        found: Sample = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return found
