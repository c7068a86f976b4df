"""Redelivery: an operator sends a notification again that the gateway had given up.

The delivery waits again, under the same id, and begins another round: its message has another id, so that the
queue does not take it for the first one. Only one of two operators succeeds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Pattern, Rate, Stores, pattern
from holdfast.core.errors import ConditionFailed, Conflict, InvalidRequest, NotFound
from holdfast.model.sql import SqlChange, SqlOne
from pagw.model import delivery_patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import DeliveryMessage, DeliveryRow, notifications, pagw
from pagw.model.patterns import OUTBOX

SERVICE: Final = "operator"
GIVEN_UP: Final = ("given_up", "expired")
_NOW: Final = datetime(2026, 11, 2, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


@pattern("M60", "A delivery of any tenant", rate=Rate(per="change by an operator"), example=(f"{_ID}#sub-1",))
def any_delivery(delivery_id: str) -> SqlOne[DeliveryRow]:
    return pagw.one(
        DeliveryRow,
        "SELECT {columns} FROM pagw.deliveries WHERE delivery_id = %(delivery_id)s",
        delivery_id=delivery_id,
    )


@pattern(
    "M61",
    "Let a delivery that was given up wait again",
    rate=Rate(per="change by an operator"),
    example=(f"{_ID}#sub-1", 1, _NOW),
)
def reopen_delivery(delivery_id: str, seen_round: int, at: datetime) -> SqlChange:
    """Begin the next round of a delivery. Raise `ConditionFailed` if it waits already, or was delivered."""
    return pagw.change(
        """UPDATE pagw.deliveries SET status = 'waiting', round = round + 1, updated_at = %(at)s
           WHERE delivery_id = %(delivery_id)s AND round = %(seen_round)s
               AND status IN ('given_up', 'expired')""",
        delivery_id=delivery_id,
        seen_round=seen_round,
        at=at,
    ).expect_rows(1)


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    any_delivery,
    reopen_delivery,
    delivery_patterns.subscription,
)


async def get_delivery(stores: Stores, delivery_id: str) -> DeliveryRow:
    """Return a delivery of any tenant. Raise `NotFound` for an unknown one."""
    row = await stores.run(any_delivery(delivery_id))
    if row is None:
        raise NotFound(f"Unknown delivery {delivery_id[:120]!r}. Its request may have been removed.")
    return row


async def resend(stores: Stores, delivery_id: str, actor: Actor) -> DeliveryRow:
    """Send a notification again that was given up, and return its delivery as it was.

    Raise `NotFound` for an unknown delivery, `InvalidRequest` for one whose subscription is not active, and
    `Conflict` for one that waits or was delivered.
    """
    row = await stores.run(any_delivery(delivery_id))
    if row is None:
        raise NotFound(
            f"Unknown delivery {delivery_id[:120]!r}. The worklist shows those that were given up."
        )
    if row.status not in GIVEN_UP:
        raise Conflict(
            f"The delivery {delivery_id} is {row.status.replace('_', ' ')}: nothing to send again."
        )
    await _check_subscription(stores, row)
    message = DeliveryMessage(
        delivery_id=delivery_id, pagw_id=row.pagw_id, tenant=row.tenant, round=row.round + 1
    )
    try:
        await stores.transact(
            reopen_delivery(delivery_id, row.round, stores.now()),
            *build_audit_writes(stores, _build_event(row, actor)),
            OUTBOX.enqueue(stores, delivery_id, message, queue=notifications),
        )
    except ConditionFailed as error:
        raise Conflict(f"The delivery {delivery_id} was sent again by somebody else.") from error
    return row


async def _check_subscription(stores: Stores, row: DeliveryRow) -> None:
    """Raise `InvalidRequest` unless the client still subscribes: the notifier would give up at once."""
    if row.subscription_id is None:
        return
    found = await stores.run(delivery_patterns.subscription(row.tenant, row.subscription_id))
    if found is None or found.status != "active":
        status = "gone" if found is None else found.status
        raise InvalidRequest(
            f"The subscription {row.subscription_id} is {status}: its client must activate it first. After "
            "the end of a subscription a client gets nothing more."
        )


def _build_event(row: DeliveryRow, actor: Actor) -> AuditEvent:
    return AuditEvent(
        type="DELIVERY",
        subtype="resent",
        actor=actor,
        service=SERVICE,
        tenant=row.tenant,
        pagw_id=row.pagw_id,
        resource_type="delivery",
        resource_id=row.delivery_id,
        details={"attempts": row.attempts, "round": row.round + 1},
    )
