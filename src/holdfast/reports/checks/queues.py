"""Rules about queues and who works them off: limits, dead letters, senders and receivers, the patterns of a consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.model.operations import EngineOperation
from holdfast.model.queues import Queue, QueueOperation, Receive, Send, SendAll
from holdfast.model.system import Component, Consumer
from holdfast.reports.checks.design import Design, Finding, listed, named
from holdfast.reports.examples import example_of

# What SQS takes (Developer Guide: Amazon SQS queue parameters, and quotas).
VISIBILITY_S_MAX: Final = 12 * 3600
DELAY_S_MAX: Final = 900
RETENTION_S: Final = (60, 14 * 86400)
RECEIVES_MAX: Final = 1_000
# Calls of one action in a second, without batches (Developer Guide: FIFO queue quotas).
FIFO_CALLS_PER_SECOND_MAX: Final = 300
SENDING: Final = frozenset({Send.kind, SendAll.kind})


def queue_limits(design: Design) -> Iterator[Finding]:
    """A time or a number that the service refuses."""
    for queue in design.system.queues:
        for told, value, least, most in _bounds(queue):
            if not least <= value <= most:
                yield design.error(
                    queue.name,
                    f"It is declared with {told}={value}, and the service takes {least} to {most:,}.",
                    "Choose a value that it takes.",
                )


def queues_that_show_what_is_worked_on(design: Design) -> Iterator[Finding]:
    """A visibility time of nought: a message in work is at once given to the next who asks."""
    for queue in design.system.queues:
        if queue.visibility_s == 0:
            yield design.error(
                queue.name,
                "Its visibility time is 0, so that a message is given to others while it is worked on.",
                "Declare visibility_s=…, longer than handling a message takes.",
            )


def queues_without_dead_letters(design: Design) -> Iterator[Finding]:
    """A message that cannot be handled is tried again and again, on a FIFO queue before all others of its group."""
    for queue in design.system.queues:
        if queue.receives_max is None:
            blocked = " and keeps back all others of its group" if queue.fifo else ""
            yield design.warning(
                queue.name,
                f"It has no dead letters: a message that cannot be handled is tried until it ends{blocked}.",
                "Declare receives_max=…: after so many attempts it goes to the dead letters, where a person sees it.",
            )


def times_that_do_not_fit(design: Design) -> Iterator[Finding]:
    """Attempts that take longer than a message is kept, or dead letters that end no later than the others."""
    for queue in design.system.queues:
        if queue.receives_max is None:
            continue
        if queue.receives_max * queue.visibility_s > queue.retention_s:
            yield design.warning(
                queue.name,
                f"{queue.receives_max} attempts of {queue.visibility_s} s take longer than the {queue.retention_s} s "
                "that a message is kept: it ends unseen, and not in the dead letters.",
                "Keep messages longer (retention_s), or try them less often (receives_max).",
            )
        if queue.dead_retention_s <= queue.retention_s:
            yield design.warning(
                queue.name,
                f"Its dead letters are kept {queue.dead_retention_s} s, no longer than its messages; on a standard "
                "queue the time runs from the first sending on.",
                "Declare a longer dead_retention_s, so that somebody can see to them.",
            )


def queues_with_one_end(design: Design) -> Iterator[Finding]:
    """A queue that no pattern sends to, or none receives from."""
    # By kind: a guarantee that sends has an operation of its own.
    sent = {
        part.queue
        for example in design.examples
        for part in example.parts
        if isinstance(part, QueueOperation) and part.kind in SENDING
    }
    received = {part.queue for _, part in design.parts(Receive)}
    for queue in design.system.queues:
        if queue not in sent:
            yield design.warning(
                queue.name,
                "No pattern sends to it.",
                "Declare the pattern that does, or take the queue away.",
            )
        if queue not in received:
            yield design.warning(
                queue.name,
                "No pattern receives from it, so that its messages end unseen.",
                "Declare the patterns and the consumer that work it off, or take the queue away.",
            )


def undeclared_queues_and_buckets(design: Design) -> Iterator[Finding]:
    """A pattern on a queue or bucket that the system does not list: nothing makes it."""
    declared = {each.name for each in (*design.system.queues, *design.system.buckets)}
    for example in design.examples:
        operation = example.operation
        if not isinstance(operation, EngineOperation) or operation.store not in ("queues", "objects"):
            continue
        if operation.resource not in declared:
            yield design.error(
                named(example.pattern),
                f"It is about {operation.resource}, which the system does not declare, so that nothing makes it.",
                f"Add it to System({operation.store if operation.store == 'queues' else 'buckets'}=…).",
            )


def consumers_of_another_queue(design: Design) -> Iterator[Finding]:
    """A consumer that works its queue off with the patterns of another."""
    for component in design.system.components:
        for consumer in component.consumers:
            if strange := [named(each) for each in _patterns(consumer) if not _is_on(each, consumer.queue)]:
                yield design.error(
                    f"{component.name}, {consumer.name}",
                    f"It works off {consumer.name} with {listed(strange)}, which are not about that queue.",
                    "Give the consumer the patterns of its own queue.",
                )


def receivers_that_delete_nothing(design: Design) -> Iterator[Finding]:
    """A component that receives and may not delete: every message comes again until it is given up."""
    for component in design.system.components:
        kinds = _kinds_by_queue(component)
        for queue, found in kinds.items():
            if "ReceiveMessage" in found and "DeleteMessage" not in found:
                yield design.error(
                    f"{component.name}, {queue}",
                    "The component receives messages and declares no pattern that deletes them, so that each comes "
                    "again until it is given up.",
                    "Declare a pattern with delete(…) and add it to the component's writes.",
                )


def busy_fifo_queues(design: Design) -> Iterator[Finding]:
    """A FIFO queue that gets more calls of one kind at the declared peak than the service takes without batches."""
    rates: dict[tuple[str, str], float] = {}
    for pattern, part in design.parts(QueueOperation):  # type: ignore[type-abstract]
        if part.queue.fifo:
            place = (part.queue.name, part.kind)
            rates[place] = rates.get(place, 0.0) + design.calls_per_second_at_peak(pattern)
    for (queue, kind), rate in rates.items():
        if rate > FIFO_CALLS_PER_SECOND_MAX:
            yield design.warning(
                queue,
                f"At the declared peak it gets {rate:,.0f} {kind} calls a second, and a FIFO queue takes "
                f"{FIFO_CALLS_PER_SECOND_MAX} of each kind without batches.",
                "Send and delete up to ten at a time, or turn on high throughput for the queue.",
            )


def _bounds(queue: Queue[Any]) -> Iterator[tuple[str, int, int, int]]:
    """What is declared, and between which values it may be."""
    yield "visibility_s", queue.visibility_s, 0, VISIBILITY_S_MAX
    yield "delay_s", queue.delay_s, 0, DELAY_S_MAX
    yield "retention_s", queue.retention_s, *RETENTION_S
    if queue.receives_max is not None:
        yield "receives_max", queue.receives_max, 1, RECEIVES_MAX
        yield "dead_retention_s", queue.dead_retention_s, *RETENTION_S


def _patterns(consumer: Consumer) -> tuple[Any, ...]:
    return (consumer.receive, consumer.delete, consumer.hold)


def _is_on(pattern: Any, queue: Queue[Any]) -> bool:
    """What cannot be called is a finding of its own."""
    operation = example_of(pattern).operation
    return operation is None or (isinstance(operation, QueueOperation) and operation.queue is queue)


def _kinds_by_queue(component: Component) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    operations: Iterable[Any] = (example_of(pattern).operation for pattern in component.patterns)
    for operation in operations:
        if isinstance(operation, QueueOperation):
            found.setdefault(operation.queue.name, set()).add(operation.kind)
    return found
