"""Rules about queues and consumers: limits, dead-letter queues, senders, receivers, patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.model.components import Component
from holdfast.model.operations import EngineOperation
from holdfast.model.queues import Queue, QueueOperation, Receive, Send, SendBatch
from holdfast.reports.design.rules.base import Design, Finding, format_pattern
from holdfast.reports.examples import build_example

# Limits of SQS (Developer Guide: Amazon SQS queue parameters, and quotas).
MAX_VISIBILITY_S: Final = 12 * 3600
MAX_DELAY_S: Final = 900
RETENTION_BOUNDS_S: Final = (60, 14 * 86400)
MAX_RECEIVES: Final = 1_000
# Calls of one action per second without batching (Developer Guide: FIFO queue quotas).
MAX_FIFO_CALLS_PER_SECOND: Final = 300
SEND_KINDS: Final = frozenset({Send.kind, SendBatch.kind})


def find_queue_limit_violations(design: Design) -> Iterator[Finding]:
    """Find queue parameters outside the range that SQS accepts."""
    for queue in design.system.queues:
        for parameter, value, least, most in _list_bounds(queue):
            if not least <= value <= most:
                yield design.error(
                    queue.name,
                    f"It is declared with {parameter}={value}; SQS accepts {least} to {most:,}.",
                    "Choose a value in that range.",
                )


def find_zero_visibility_timeouts(design: Design) -> Iterator[Finding]:
    """Find queues with a visibility timeout of 0: messages are redelivered while being processed."""
    for queue in design.system.queues:
        if queue.visibility_s == 0:
            yield design.error(
                queue.name,
                "Its visibility timeout is 0: other consumers receive a message while it is being processed.",
                "Declare visibility_s=…, longer than processing a message takes.",
            )


def find_queues_without_dead_letters(design: Design) -> Iterator[Finding]:
    """Find queues without a dead-letter queue: a failing message is retried until it expires.

    On a FIFO queue it blocks the other messages of its group.
    """
    for queue in design.system.queues:
        if queue.max_receives is None:
            blocked = " and blocks the other messages of its group" if queue.fifo else ""
            yield design.warning(
                queue.name,
                f"It has no dead-letter queue: a failing message is retried until it expires{blocked}.",
                "Declare max_receives=…: after that many attempts a message goes to the dead letters.",
            )


def find_conflicting_retentions(design: Design) -> Iterator[Finding]:
    """Find queues whose attempts outlast the retention period, or whose dead letters expire too early."""
    for queue in design.system.queues:
        if queue.max_receives is None:
            continue
        if queue.max_receives * queue.visibility_s > queue.retention_s:
            yield design.warning(
                queue.name,
                f"{queue.max_receives} attempts of {queue.visibility_s} s take longer than the retention "
                "period of "
                f"{queue.retention_s} s: a message expires before it goes to the dead letters.",
                "Increase retention_s, or decrease max_receives.",
            )
        if queue.dead_retention_s <= queue.retention_s:
            yield design.warning(
                queue.name,
                f"Its dead letters are kept {queue.dead_retention_s} s, no longer than its messages; on a "
                "standard queue this period starts when the message is first sent.",
                "Increase dead_retention_s, so that an operator has time to handle them.",
            )


def find_unconnected_queues(design: Design) -> Iterator[Finding]:
    """Find queues that no pattern sends to, or that no pattern receives from."""
    # By kind, not by class: guarantees send with their own operation classes.
    sent = {
        part.queue
        for example in design.examples
        for part in example.parts
        if isinstance(part, QueueOperation) and part.kind in SEND_KINDS
    }
    received = {part.queue for _, part in design.find_parts(Receive)}
    for queue in design.system.queues:
        if queue not in sent:
            yield design.warning(
                queue.name,
                "No pattern sends to it.",
                "Declare the pattern that does, or remove the queue.",
            )
        if queue not in received:
            yield design.warning(
                queue.name,
                "No pattern receives from it: its messages expire unprocessed.",
                "Give a component Consumer(queue, open_handler), or remove the queue.",
            )


def find_undeclared_queues_and_buckets(design: Design) -> Iterator[Finding]:
    """Find patterns on a queue or bucket that the system does not declare, so that nothing creates it."""
    declared = {each.name for each in (*design.system.queues, *design.system.buckets)}
    for example in design.examples:
        operation = example.operation
        if not isinstance(operation, EngineOperation) or operation.store not in ("queues", "objects"):
            continue
        if operation.resource not in declared:
            yield design.error(
                format_pattern(example.pattern),
                f"It uses {operation.resource}, which the system does not declare, so nothing creates it.",
                f"Add it to System({operation.store if operation.store == 'queues' else 'buckets'}=…).",
            )


def find_receivers_without_delete(design: Design) -> Iterator[Finding]:
    """Find components that receive messages but have no pattern to delete them.

    Each such message is redelivered until it expires or goes to the dead-letter queue.
    """
    for component in design.system.components:
        kinds = _collect_kinds_by_queue(component)
        for queue, found in kinds.items():
            if "ReceiveMessage" in found and "DeleteMessage" not in found:
                yield design.error(
                    f"{component.name}, {queue}",
                    "The component receives messages but declares no pattern that deletes them: each message "
                    "is redelivered until it expires or goes to the dead letters.",
                    "Give the component a Consumer, or add queue.consumer to its `uses`.",
                )


def find_busy_fifo_queues(design: Design) -> Iterator[Finding]:
    """Find FIFO queues with more calls of one action at the peak than SQS accepts without batching."""
    rates: dict[tuple[str, str], float] = {}
    for pattern, part in design.find_parts(QueueOperation):  # type: ignore[type-abstract]
        if part.queue.fifo:
            place = (part.queue.name, part.kind)
            rates[place] = rates.get(place, 0.0) + design.compute_peak_rate(pattern)
    for (queue, kind), rate in rates.items():
        if rate > MAX_FIFO_CALLS_PER_SECOND:
            yield design.warning(
                queue,
                f"At the declared peak it gets {rate:,.0f} {kind} calls a second; a FIFO queue accepts "
                f"{MAX_FIFO_CALLS_PER_SECOND} of each action without batching.",
                "Send and delete in batches of up to ten, or enable high throughput for the queue.",
            )


def _list_bounds(queue: Queue[Any]) -> Iterator[tuple[str, int, int, int]]:
    """Yield each declared parameter with its value, minimum and maximum."""
    yield "visibility_s", queue.visibility_s, 0, MAX_VISIBILITY_S
    yield "delay_s", queue.delay_s, 0, MAX_DELAY_S
    yield "retention_s", queue.retention_s, *RETENTION_BOUNDS_S
    if queue.max_receives is not None:
        yield "max_receives", queue.max_receives, 1, MAX_RECEIVES
        yield "dead_retention_s", queue.dead_retention_s, *RETENTION_BOUNDS_S


def _collect_kinds_by_queue(component: Component) -> dict[str, set[str]]:
    """Return the kinds of operations that the component runs on each queue."""
    found: dict[str, set[str]] = {}
    operations: Iterable[Any] = (build_example(pattern).operation for pattern in component.patterns)
    for operation in operations:
        if isinstance(operation, QueueOperation):
            found.setdefault(operation.queue.name, set()).add(operation.kind)
    return found
