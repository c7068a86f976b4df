"""Access patterns of the SQL rows of clients' subscriptions and of webhook deliveries to clients."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Rate, pattern
from holdfast.model.sql import SqlChange, SqlOne, SqlReturning, SqlRows
from pagw.model.entities import DeliveryRow, SubscriptionId, SubscriptionRow, Total, pagw
from pagw.model.patterns import PER_NOTICE, PER_OPERATOR_CHANGE, PER_QUESTION, PER_REQUEST

# Events and deliveries per statement: each holds or becomes a whole response.
BATCH_SIZE: Final = 200
PER_RETRY: Final = Rate(per="look at clients out of reach")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"
_TENANT: Final = "acme"


def _build_subscription_example() -> tuple[SubscriptionRow]:
    """Build the example arguments of `create_subscription`."""
    return (
        SubscriptionRow(
            subscription_id="sub-1",
            tenant=_TENANT,
            status="requested",
            endpoint="https://client.example/hook",
            organization=None,
            content="full-resource",
            secret_name=None,
            created_at=_NOW,
            updated_at=_NOW,
            ends_at=None,
            events=0,
            error=None,
        ),
    )


@pattern("S40", "Create a subscription", rate=PER_OPERATOR_CHANGE, example=_build_subscription_example)
def create_subscription(subscription: SubscriptionRow) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.subscriptions (subscription_id, tenant, status, endpoint, organization, content,
               secret_name,
               created_at, updated_at, ends_at, events, error, retry_at)
           VALUES (%(subscription_id)s, %(tenant)s, %(status)s, %(endpoint)s, %(organization)s, %(content)s,
               %(secret_name)s,
               %(created_at)s, %(updated_at)s, %(ends_at)s, %(events)s, %(error)s,
               %(retry_at)s)""",
        **subscription.model_dump(),
    )


@pattern("S41", "A tenant's subscription", rate=PER_QUESTION, example=(_TENANT, "sub-1"))
def subscription(tenant: str, subscription_id: str) -> SqlOne[SubscriptionRow]:
    return pagw.one(
        SubscriptionRow,
        """SELECT {columns} FROM pagw.subscriptions
           WHERE tenant = %(tenant)s AND subscription_id = %(subscription_id)s""",
        tenant=tenant,
        subscription_id=subscription_id,
    )


@pattern("S42", "A tenant's subscriptions", rate=PER_QUESTION, example=(_TENANT,))
def subscriptions_of(
    tenant: str, *, after: datetime | None = None, after_id: str | None = None, limit: int = 50
) -> SqlRows[SubscriptionRow]:
    return pagw.rows(
        SubscriptionRow,
        """SELECT {columns} FROM pagw.subscriptions
           WHERE tenant = %(tenant)s
             AND (%(after)s::timestamptz IS NULL OR (created_at, subscription_id) > (%(after)s,
                 %(after_id)s::text))
           ORDER BY created_at, subscription_id LIMIT %(limit)s""",
        tenant=tenant,
        after=after,
        after_id=after_id,
        limit=limit,
    )


@pattern(
    "S46", "Number of a tenant's subscriptions that are not off", rate=PER_OPERATOR_CHANGE, example=(_TENANT,)
)
def live_subscriptions(tenant: str) -> SqlOne[Total]:
    """Count the tenant's subscriptions whose status is not `off`."""
    return pagw.one(
        Total,
        "SELECT count(*) AS count FROM pagw.subscriptions WHERE tenant = %(tenant)s AND status <> 'off'",
        tenant=tenant,
    )


@pattern(
    "S43",
    "Subscriptions that cover a request, active or in error",
    rate=PER_REQUEST,
    example=(_TENANT, "1234567893", _NOW),
)
def subscribers(tenant: str, organization: str, at: datetime) -> SqlRows[SubscriptionId]:
    """Return ids only, so that one unreadable row does not hide the others. Events of a subscription in error
    are held until it is active again.
    """
    return pagw.rows(
        SubscriptionId,
        """SELECT {columns} FROM pagw.subscriptions
           WHERE tenant = %(tenant)s AND status IN ('active', 'error')
             AND (ends_at IS NULL OR ends_at > %(at)s)
             AND (organization IS NULL OR organization = %(organization)s)
           ORDER BY subscription_id""",
        tenant=tenant,
        organization=organization,
        at=at,
    )


@pattern(
    "S44",
    "Set the status of a subscription",
    rate=PER_OPERATOR_CHANGE,
    example=(_TENANT, "sub-1", "active", _NOW),
)
def set_subscription(
    tenant: str,
    subscription_id: str,
    status: str,
    at: datetime,
    *,
    error: str | None = None,
    retry_at: datetime | None = None,
) -> SqlChange:
    return pagw.change(
        """UPDATE pagw.subscriptions SET status = %(status)s, updated_at = %(at)s, error = %(error)s,
               retry_at = %(retry_at)s
           WHERE tenant = %(tenant)s AND subscription_id = %(subscription_id)s""",
        tenant=tenant,
        subscription_id=subscription_id,
        status=status,
        at=at,
        error=error,
        retry_at=retry_at,
    ).expect_rows(1)


@pattern("S47", "Subscriptions in error that are due to be tried again", rate=PER_RETRY, example=(_NOW,))
def subscriptions_to_retry(now: datetime, limit: int = BATCH_SIZE) -> SqlRows[SubscriptionRow]:
    """Select the subscriptions of all tenants whose next try is due, the longest due first."""
    return pagw.rows(
        SubscriptionRow,
        """SELECT {columns} FROM pagw.subscriptions
           WHERE status = 'error' AND retry_at <= %(now)s AND (ends_at IS NULL OR ends_at > %(now)s)
           ORDER BY retry_at LIMIT %(limit)s""",
        now=now,
        limit=limit,
    )


@pattern(
    "S48", "Set when a subscription in error is tried again", rate=PER_RETRY, example=("sub-1", _NOW, _NOW)
)
def set_retry(subscription_id: str, seen: datetime, then: datetime | None) -> SqlChange:
    """Set the next try, if it is still `seen`: of several processes one makes the try."""
    return pagw.change(
        """UPDATE pagw.subscriptions SET retry_at = %(then)s
           WHERE subscription_id = %(subscription_id)s AND status = 'error' AND retry_at = %(seen)s""",
        subscription_id=subscription_id,
        seen=seen,
        then=then,
    )


@pattern("S45", "Increment the event number of a subscription", rate=PER_NOTICE, example=("sub-1",))
def count_event(subscription_id: str) -> SqlReturning[SubscriptionRow]:
    """Increment the subscription's event number and return the row."""
    return pagw.returning(
        SubscriptionRow,
        """UPDATE pagw.subscriptions SET events = events + 1
           WHERE subscription_id = %(subscription_id)s RETURNING {columns}""",
        subscription_id=subscription_id,
    )


def _build_delivery_example() -> dict[str, Any]:
    """Build the example arguments of `create_delivery`."""
    return {
        "delivery_id": f"{_ID}#sub-1",
        "tenant": _TENANT,
        "pagw_id": _ID,
        "subscription_id": "sub-1",
        "target": "https://client.example/hook",
        "event_number": 1,
        "told": {"status": "COMPLETED"},
        "at": _NOW,
    }


@pattern("S50", "Create a delivery to a client", rate=PER_NOTICE, example=_build_delivery_example)
def create_delivery(
    *,
    delivery_id: str,
    tenant: str,
    pagw_id: str,
    subscription_id: str | None,
    target: str,
    event_number: int,
    at: datetime,
    told: dict[str, Any] | None = None,
    status: str = "waiting",
) -> SqlChange:
    """Insert a delivery, unless it exists. `told` is the announced end of the request."""
    return pagw.change(
        """INSERT INTO pagw.deliveries (delivery_id, tenant, pagw_id, subscription_id, target, secret_name,
               event_number,
               told, status, created_at, updated_at)
           VALUES (%(delivery_id)s, %(tenant)s, %(pagw_id)s, %(subscription_id)s, %(target)s, %(secret_name)s,
               %(event_number)s, %(told)s, %(status)s, %(at)s, %(at)s)
           ON CONFLICT (delivery_id) DO NOTHING""",
        delivery_id=delivery_id,
        tenant=tenant,
        pagw_id=pagw_id,
        subscription_id=subscription_id,
        target=target,
        secret_name=None,
        event_number=event_number,
        told=told or {},
        status=status,
        at=at,
    )


@pattern("S51", "A delivery to a client", rate=PER_NOTICE, example=(_TENANT, f"{_ID}#sub-1"))
def delivery(tenant: str, delivery_id: str) -> SqlOne[DeliveryRow]:
    return pagw.one(
        DeliveryRow,
        """SELECT {columns} FROM pagw.deliveries
           WHERE tenant = %(tenant)s AND delivery_id = %(delivery_id)s""",
        tenant=tenant,
        delivery_id=delivery_id,
    )


@pattern(
    "S52",
    "Record the outcome of a delivery attempt",
    rate=PER_NOTICE,
    example=(f"{_ID}#sub-1", "delivered", _NOW),
)
def note_delivery(
    delivery_id: str,
    status: str,
    at: datetime,
    *,
    delivered_at: datetime | None = None,
    error: str | None = None,
) -> SqlChange:
    """Update a delivery that is still waiting. A delivered one stays delivered, whatever another attempt
    reports.
    """
    return pagw.change(
        """UPDATE pagw.deliveries
           SET status = %(status)s, attempts = attempts + 1, updated_at = %(at)s, last_error = %(error)s,
               delivered_at = coalesce(delivered_at, %(delivered_at)s::timestamptz)
           WHERE delivery_id = %(delivery_id)s AND status = 'waiting'""",
        delivery_id=delivery_id,
        status=status,
        at=at,
        delivered_at=delivered_at,
        error=error,
    )


@pattern("S53", "Deliveries of a request", rate=PER_QUESTION, example=(_TENANT, _ID))
def deliveries_of(tenant: str, pagw_id: str) -> SqlRows[DeliveryRow]:
    return pagw.rows(
        DeliveryRow,
        """SELECT {columns} FROM pagw.deliveries
           WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s ORDER BY created_at, delivery_id""",
        tenant=tenant,
        pagw_id=pagw_id,
    )


# --- clients out of reach -----------------------------------------------------------------------------------


@pattern("S55", "Release held deliveries of a subscription", rate=PER_RETRY, example=("sub-1", _NOW, _NOW))
def release_held(
    subscription_id: str, since: datetime, at: datetime, limit: int = BATCH_SIZE
) -> SqlReturning[DeliveryRow]:
    """Start the next round of the deliveries that were created after `since` and are held, in the order of
    their events.
    """
    return pagw.returning(
        DeliveryRow,
        """UPDATE pagw.deliveries SET status = 'waiting', round = round + 1, updated_at = %(at)s
           WHERE delivery_id IN (
               SELECT delivery_id FROM pagw.deliveries
               WHERE subscription_id = %(subscription_id)s AND status = 'held' AND created_at >= %(since)s
               ORDER BY event_number LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
           RETURNING {columns}""",
        subscription_id=subscription_id,
        since=since,
        at=at,
        limit=limit,
    )


@pattern("S56", "Release held callbacks that are due", rate=PER_RETRY, example=(_NOW, _NOW, _NOW))
def release_held_callbacks(
    before: datetime, since: datetime, at: datetime, limit: int = BATCH_SIZE
) -> SqlReturning[DeliveryRow]:
    """Start the next round of the callbacks, created after `since`, that were last tried before `before`."""
    return pagw.returning(
        DeliveryRow,
        """UPDATE pagw.deliveries SET status = 'waiting', round = round + 1, updated_at = %(at)s
           WHERE delivery_id IN (
               SELECT delivery_id FROM pagw.deliveries
               WHERE subscription_id IS NULL AND status = 'held' AND updated_at <= %(before)s
                 AND created_at >= %(since)s
               ORDER BY updated_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
           RETURNING {columns}""",
        before=before,
        since=since,
        at=at,
        limit=limit,
    )


@pattern("S57", "Expire deliveries that were held for too long", rate=PER_RETRY, example=(_NOW, _NOW))
def expire_held(before: datetime, at: datetime) -> SqlChange:
    """Expire the held deliveries that were created before `before`."""
    return pagw.change(
        """UPDATE pagw.deliveries SET status = 'expired', updated_at = %(at)s
           WHERE status = 'held' AND created_at < %(before)s""",
        before=before,
        at=at,
    )


@pattern("S58", "Events of a subscription", rate=PER_QUESTION, example=(_TENANT, "sub-1", _NOW))
def events_of(
    tenant: str,
    subscription_id: str,
    since: datetime,
    *,
    first: int = 1,
    last: int | None = None,
    limit: int = 20,
) -> SqlRows[DeliveryRow]:
    """Select the events after `since` with the numbers `first` to `last`, in order, whether delivered or
    not.
    """
    return pagw.rows(
        DeliveryRow,
        """SELECT {columns} FROM pagw.deliveries
           WHERE tenant = %(tenant)s AND subscription_id = %(subscription_id)s AND created_at >= %(since)s
             AND event_number >= %(first)s AND (%(last)s::bigint IS NULL OR event_number <= %(last)s)
           ORDER BY event_number LIMIT %(limit)s""",
        tenant=tenant,
        subscription_id=subscription_id,
        since=since,
        first=first,
        last=last,
        limit=limit,
    )
