"""passubscriptionhandler: completes a request and announces its end to subscribers.

It stores the final response under the request's idempotency key and sets COMPLETED. Completion does not
depend on clients' servers: each delivery is its own row and message, attempted until it is accepted or given
up (`notifier`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import ConditionFailed, InvalidRequest, ItemUnreadable
from holdfast.model.sql import SqlWrite
from pagw.domain.statuses import TERMINAL, Stage, Status
from pagw.model import decision_patterns, delivery_patterns, patterns
from pagw.model.entities import RequestRow, RequestUpdate, StageMessage, SubscriptionRow
from pagw.settings import PagwSettings
from pagw.workers.payer_callbacks import build_callback_message
from pagw.workers.stages.base_stage import BaseStage, Ending, StageResult, build_delivery_message
from pagw.workers.stages.payer_answers import list_later_callbacks

CANCELLED_OCCASION: Final = "cancelled"

log = logging.getLogger(__name__)


class SubscriptionUndeliverable(Exception):
    """A subscription whose row is unreadable, or whose delivery the store refuses."""

    def __init__(self, subscription_id: str) -> None:
        super().__init__(subscription_id)
        self.subscription_id = subscription_id


class SubscriptionHandler(BaseStage):
    """The stage that completes requests and announces them to subscribers."""

    stage = Stage.subscription_handler
    purpose = "Completes a request: stores the answer with its idempotency key and notifies subscribers"
    uses = (
        delivery_patterns.subscribers,
        delivery_patterns.count_event,
        delivery_patterns.set_subscription,
        decision_patterns.decisions_of,
        patterns.finish_submission,
    )
    also_accepts = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)

    def __init__(self, stores: Stores, settings: PagwSettings | None = None) -> None:
        super().__init__(stores)
        self.settings = settings or PagwSettings.load()

    async def run(self, request: RequestRow, message: StageMessage) -> None:
        """Announce the request's end to its subscribers and complete it, in its own transaction. A failed or
        cancelled request keeps its status.
        """
        if not _is_current_ending(request, message):
            return
        ending = await self._load_ending(request, message)
        if ending.later_callback is None:
            await self._finish_submission(request)
        skipped = set[str]()
        while True:
            try:
                await self._complete(request, message, ending, skipped)
            except SubscriptionUndeliverable as undeliverable:
                await self._disable(request, undeliverable)
                skipped.add(undeliverable.subscription_id)
                continue
            except ConditionFailed as refused:
                await self.handle_conflict(request, message, refused)
            return

    async def _load_ending(self, request: RequestRow, message: StageMessage) -> Ending:
        """Return what the message announces: a later decision, or the request's current end."""
        number = _get_later_callback(message)
        if number is None:
            return _get_ending(request)
        decisions = await self.stores.run(decision_patterns.decisions_of(request.tenant, request.pagw_id))
        outcome = next(each.outcome for each in decisions if each.source == number)
        return Ending(request.status, outcome, later_callback=number)

    async def _complete(
        self, request: RequestRow, message: StageMessage, ending: Ending, skipped: Collection[str]
    ) -> None:
        """Announce and complete the request in one transaction, which also numbers the events. Leave out the
        subscriptions in `skipped`.
        """
        at, count = self.get_now(), 0
        # A request that has ended already is announced and keeps its status.
        is_over = request.status in TERMINAL
        async with self.stores.sql_transaction() as sql:
            for each in await sql.run(
                delivery_patterns.subscribers(request.tenant, request.provider_npi or "", at)
            ):
                if each.subscription_id in skipped:
                    continue
                await self._announce(sql, request, each.subscription_id, ending)
                count += 1
            step = StageResult(
                request.status if is_over else Status.COMPLETED,
                patterns.NO_UPDATE if is_over else RequestUpdate(completed_at=at),
                {"subscribers": count},
                writes=() if is_over else self._build_later_messages(request),
            )
            for write in self.build_writes(request, message, step):
                await sql.run(write)

    def _build_later_messages(self, request: RequestRow) -> list[SqlWrite[Any]]:
        """Return the messages of callbacks that came while the first decision was on its way."""
        return [
            build_callback_message(self.stores, request, number, f"later-{number}")
            for number in list_later_callbacks(request)
        ]

    async def _announce(self, sql: Any, request: RequestRow, subscription_id: str, ending: Ending) -> None:
        """Number the event and create the delivery to one subscription. Raise `SubscriptionUndeliverable` if
        that is invalid.
        """
        try:
            numbered = await sql.run(delivery_patterns.count_event(subscription_id))
            for write in self._build_delivery(request, numbered[0], ending):
                await sql.run(write)
        except (InvalidRequest, ItemUnreadable) as error:
            raise SubscriptionUndeliverable(subscription_id) from error

    async def _disable(self, request: RequestRow, undeliverable: SubscriptionUndeliverable) -> None:
        """Set the subscription to `error`, so that it blocks neither the others nor the request."""
        log.error(
            "The subscription %s is disabled: its row or its delivery is invalid.",
            undeliverable.subscription_id,
        )
        why = "the gateway could not create a delivery. Delete this subscription and create another"
        await self.stores.run(
            delivery_patterns.set_subscription(
                request.tenant, undeliverable.subscription_id, "error", self.get_now(), error=why
            )
        )

    def _build_delivery(
        self, request: RequestRow, subscription: SubscriptionRow, ending: Ending
    ) -> list[SqlWrite[Any]]:
        """Build the delivery's row and its message."""
        at = self.get_now()
        suffix = f"#{ending.format_id('f')}" if ending.failure_number else ""
        if ending.later_callback is not None:
            suffix = f"#{ending.format_id('d')}"
        delivery_id = f"{request.pagw_id}#{subscription.subscription_id}{suffix}"
        is_held = subscription.status != "active"
        return [
            delivery_patterns.create_delivery(
                delivery_id=delivery_id,
                tenant=request.tenant,
                pagw_id=request.pagw_id,
                subscription_id=subscription.subscription_id,
                target=subscription.endpoint,
                event_number=subscription.events,
                told=ending.to_json(request.completed_at or at),
                status="held" if is_held else "waiting",
                at=at,
            ),
            # The event of a client out of reach is kept until the subscription is active again.
            *(() if is_held else (build_delivery_message(self.stores, request, delivery_id),)),
        ]

    async def _finish_submission(self, request: RequestRow) -> None:
        """Store the final response under the idempotency key, before the request's row. A crash in between
        repeats this without effect.
        """
        key = request.metadata.get("idempotencyKey")
        if not key or request.s3_response_key is None:
            return
        ends = self.get_now() + timedelta(hours=self.settings.idempotency_hours)
        hash = str(request.metadata.get("responseSha256", ""))
        try:
            await self.stores.run(
                patterns.finish_submission(str(key), request.pagw_id, hash, request.s3_response_key, ends)
            )
        except ConditionFailed:
            # The key expired before the payer decided: using it again creates a new request.
            return


def _is_current_ending(request: RequestRow, message: StageMessage) -> bool:
    """Return whether the message is about the request's current end, so that each end is announced once."""
    match request.status:
        case Status.FAILED:
            is_later = _get_later_callback(message) is not None
            return is_later or message.occasion == f"failed-{_get_ending(request).failure_number}"
        case Status.CANCELLED:
            return message.occasion == CANCELLED_OCCASION or _get_later_callback(message) is not None
        case Status.COMPLETED:
            return _get_later_callback(message) is not None
        case _:
            return True


def _get_later_callback(message: StageMessage) -> str | None:
    """Return the number of the callback whose later decision the message announces, or None."""
    prefix, _, number = message.occasion.partition("-")
    return number if prefix == "decision" else None


def _get_ending(request: RequestRow) -> Ending:
    """Return the current end of the request: failed, cancelled or completed."""
    if request.status is Status.FAILED:
        return Ending.from_failed_request(request)
    return Ending(
        Status.CANCELLED if request.status is Status.CANCELLED else Status.COMPLETED, request.decision
    )
