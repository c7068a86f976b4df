"""`BaseOutbox`: what outboxes in tables and in SQL have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.errors import DeclarationError
from holdfast.guarantees.messaging.messages import Backlog, OutboxStatus, UnsentMessage
from holdfast.guarantees.messaging.relay import Relay, RelayPatterns, RelayReport, RelaySettings, RelayStorage
from holdfast.guarantees.pattern_sets import Guarantee, Patterns
from holdfast.model.components import Schedule
from holdfast.runtime import Stores
from holdfast.runtime.telemetry.figures import OUTBOX_MESSAGES, OUTBOX_OLDEST_AGE, Figure, count_states


@dataclass(frozen=True)
class OutboxRole:
    """The patterns that a component in this role runs, and the outbox, which its system lists."""

    patterns: Patterns
    outboxes: tuple[BaseOutbox, ...]


@dataclass(eq=False, kw_only=True)
class BaseOutbox(RelaySettings, Guarantee, ABC):
    """The roles and methods of an outbox."""

    pattern_set: RelayPatterns = field(init=False, repr=False)

    def _check_settings(self) -> None:
        if self.batch_size < 1 or self.max_attempts < 1:
            raise DeclarationError(
                f"Invalid outbox {self.name}: batch_size={self.batch_size} and "
                f"max_attempts={self.max_attempts} must be at least 1."
            )
        delays = 0 < self.retry_delay_s <= self.max_retry_delay_s
        if not (self.poll_s > 0 and self.lease_s > 0 and delays):
            raise DeclarationError(
                f"Invalid outbox {self.name}: poll_s, lease_s and retry_delay_s must be above 0, and "
                "retry_delay_s not above max_retry_delay_s."
            )

    @abstractmethod
    def open_storage(self, stores: Stores) -> RelayStorage:
        """Return the stored messages, for the relay."""

    @property
    def outboxes(self) -> tuple[BaseOutbox, ...]:
        """This outbox, for the system whose component uses it."""
        return (self,)

    @property
    def publisher(self) -> OutboxRole:
        """The role that enqueues messages."""
        return OutboxRole(self.pattern_set.publisher, self.outboxes)

    @property
    def relay(self) -> OutboxRole:
        """The role that sends messages; it cannot enqueue."""
        return OutboxRole(self.pattern_set.relay, self.outboxes)

    @property
    def operator(self) -> OutboxRole:
        """The role that lists, redrives, discards and sweeps messages."""
        return OutboxRole(self.pattern_set.operator, self.outboxes)

    # --- relay ----------------------------------------------------------------------------------------------

    async def send_unsent(self, stores: Stores) -> RelayReport:
        """Send messages that are due, and return the counts. Safe in several processes at once.

        If the report says `more`, messages are left: call it again. A schedule does so.
        """
        return await Relay(self.open_storage(stores), self.pattern_set, stores).run()

    def schedule(self, name: str = "relay") -> Schedule:
        """Return a schedule that sends every `poll_s` seconds."""
        return Schedule(name, self.poll_s, self.send_unsent)

    # --- inspection and repair ------------------------------------------------------------------------------

    @abstractmethod
    async def list_unsent(self, stores: Stores, *statuses: OutboxStatus) -> list[UnsentMessage]:
        """Return the unsent messages, pending and dead, or only those with the given statuses, oldest
        first.
        """

    async def backlog(self, stores: Stores) -> tuple[Backlog, ...]:
        """Return for each queue with unsent messages how many are pending, how many dead, and the time of the
        oldest.
        """
        by_queue: dict[str, list[UnsentMessage]] = defaultdict(list)
        for message in await self.list_unsent(stores):
            by_queue[message.queue].append(message)
        return tuple(
            Backlog(
                queue_name=queue,
                pending=sum(each.status is OutboxStatus.PENDING for each in messages),
                dead=sum(each.status is OutboxStatus.DEAD for each in messages),
                oldest_at=messages[0].created_at,
            )
            for queue, messages in sorted(by_queue.items())
        )

    @property
    def figures_name(self) -> str:
        return f"outbox {self.name}"

    @property
    @abstractmethod
    def figure_patterns(self) -> Patterns:
        """The patterns that read the backlog, for the metrics of a process that may run them."""

    async def read_figures(self, stores: Stores) -> list[Figure]:
        """Return the number of unsent messages for each queue, and the age of the oldest, for the metrics."""
        backlogs = {each.queue_name: each for each in await self.backlog(stores)}
        figures: list[Figure] = []
        for queue in self.pattern_set.queues:
            found = backlogs.get(queue)
            labels = {"outbox": self.name, "queue": queue}
            counts = {"pending": found.pending if found else 0, "dead": found.dead if found else 0}
            age_s = found.oldest_age_s(stores.clock.now()) if found else 0.0
            figures += [
                *count_states(OUTBOX_MESSAGES, counts, **labels),
                Figure(OUTBOX_OLDEST_AGE, age_s, labels),
            ]
        return figures

    @abstractmethod
    async def redrive(
        self,
        stores: Stores,
        aggregate: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
    ) -> int:
        """Make dead messages pending again and return their number: all, or those that match every given
        filter.
        """

    @abstractmethod
    async def discard(self, stores: Stores, ids: Sequence[str]) -> int:
        """Give up dead messages permanently, so that the messages behind them are sent; return their
        number.
        """
