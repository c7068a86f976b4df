"""Load the facts of a decision: the message, its writer, the order and the conversation's state.

webhook → the message it is about (`ResolvedEvent`) → facts

A webhook names its message by an id, by a hash of its text, or not at all. The author that a webhook names
counts only if the help desk returns none. Nothing of this is stored: the text is in memory during the attempt
only.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from holdfast import Stores
from holdfast.ai import UNKNOWN as UNKNOWN_INTENT
from holdfast.ai import Classification, Classifier
from holdfast.core.errors import ExternalServiceFailed, NotFound
from holdfast.guarantees import fingerprint
from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.idempotency_keys import build_event_key
from richpanel.domain.inbound_events import UNKNOWN, EventMessage, InboundEvent, to_stored_id
from richpanel.domain.mail.html_text import convert_html
from richpanel.domain.mail.message import MailMessage
from richpanel.domain.orders import Order, hash_email, is_verified
from richpanel.domain.reading import Reading, read_message
from richpanel.domain.rules import Facts
from richpanel.integrations import responses
from richpanel.integrations.clients import HelpDeskClient, ShopClient
from richpanel.integrations.responses import DeskMessage
from richpanel.model import patterns
from richpanel.model.entities import ConversationState
from richpanel.settings import HELPDESK_VARIABLE, RichpanelSettings

# A webhook that names no message covers the messages since the last event, and this much before it, because
# webhooks overtake each other.
LOOK_BACK: Final = timedelta(days=1)
# The largest distance between the time of a webhook and that of its message, in time buckets.
MAX_BUCKETS_APART: Final = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResolvedEvent:
    """An event (`message` is its queue message), with the help desk's message if that was already fetched."""

    message: EventMessage
    desk_message: DeskMessage | None = None


@dataclass(frozen=True)
class ContextLoader:
    """Loads facts from the help desk, the shop and the stores."""

    stores: Stores
    desk: HelpDeskClient
    shop: ShopClient
    classifier: Classifier
    settings: RichpanelSettings

    # --- resolving messages ---------------------------------------------------------------------------------

    async def match_by_text(self, message: EventMessage) -> ResolvedEvent | None:
        """Return the event of the help desk's message whose text has the hash in the event's key, nearest in
        time.

        Its key uses the help desk's id of the message, if there is one. None while no message matches.
        """
        at = message.created_at or message.received_at
        max_distance = timedelta(seconds=MAX_BUCKETS_APART * self.settings.bucket_s)
        found = [
            (distance, each)
            for each in await self._list_messages(message)
            if self._hash_message(message, each) == message.message_key
            and (distance := abs((each.written_at or at) - at)) <= max_distance
        ]
        if not found:
            return None
        _, nearest = min(found, key=lambda pair: pair[0])
        if not nearest.id:
            return ResolvedEvent(message, nearest)
        return ResolvedEvent(
            _build_event_message(message, nearest, message.created_at, self.settings.bucket_s), nearest
        )

    async def find_recent_messages(self, message: EventMessage) -> list[ResolvedEvent]:
        """Return one event for each customer message since the cutoff, oldest first, for a webhook that names
        no message.

        The cutoff is a day before the last event in the conversation's state (`_compute_cutoff`). Messages in
        that day may have been processed before: they have the same keys, so the worker does not process them
        again.
        """
        since = await self._compute_cutoff(message)
        at, found = since, []
        for each in await self._list_messages(message):
            if each.written_at is None:
                log.warning("Message in conversation %s has an invalid timestamp.", message.conversation_id)
            # Messages are in order: one without a time was written after the previous one.
            at = each.written_at or at
            if at >= since and each.author in ("customer", None) and (each.id or each.text):
                found.append((at, each))
        return [
            ResolvedEvent(_build_event_message(message, each, at, self.settings.bucket_s), each)
            for at, each in sorted(found, key=lambda pair: pair[0])
        ]

    async def _list_messages(self, message: EventMessage) -> list[DeskMessage]:
        """Return all messages of the ticket. Raise `ExternalServiceFailed` if the ticket does not exist."""
        try:
            return [
                responses.parse_message(each)
                for each in await self.desk.list_messages(message.conversation_id)
            ]
        except NotFound as error:
            raise _build_ticket_missing(message) from error

    async def _compute_cutoff(self, message: EventMessage) -> datetime:
        """Return the time from which messages count as recent: a day before the last processed event. Without
        one, and at the earliest, the age of the oldest idempotency record, because older work is not on
        record.
        """
        oldest = message.received_at - timedelta(days=self.settings.idempotency_days - 1)
        state = await self.load_state(message.conversation_id)
        if state is None or state.last_event_created_at is None:
            return oldest
        return max(oldest, min(state.last_event_created_at, message.received_at) - LOOK_BACK)

    def _hash_message(self, message: EventMessage, desk_message: DeskMessage) -> str:
        """Return the hash that the message's text would have in the event's key."""
        return build_event_key(
            message.conversation_id,
            None,
            text=desk_message.text if desk_message.text.strip() else "",
            created_at=message.created_at,
            received_at=message.received_at,
            bucket_s=self.settings.bucket_s,
        ).message

    # --- facts ----------------------------------------------------------------------------------------------

    async def load_facts(
        self, event: ResolvedEvent, flags: FeatureFlags, stopped_intents: Mapping[str, str] | None = None
    ) -> Facts | None:
        """Return the facts of an event; `stopped_intents` are those whose replies have stopped. None if "
        "the help desk has the ticket but no longer the message."""
        ticket = responses.parse_ticket(await self._get_ticket(event.message))
        desk_message = event.desk_message or await self._find_message(event.message)
        if desk_message is None:
            return None
        reading = read_message(_build_mail(desk_message))
        facts = Facts(
            event=_build_inbound_event(event.message, ticket, desk_message),
            message_key=event.message.message_key,
            classification=await self._classify(reading),
            reading=reading,
            stopped_intents=stopped_intents or {},
            flags=flags,
            now=self.stores.now(),
            state=await self.load_state(event.message.conversation_id),
            settings=self.settings,
        )
        return await self._add_order(facts)

    async def _classify(self, reading: Reading) -> Classification:
        """Classify a message in a thread of its own, because the model takes some milliseconds. A "
        "message that
        the classifier cannot read is unknown.
        """
        if reading.automatic or not reading.is_home_language:
            return Classification(UNKNOWN_INTENT, 0.0)
        return await asyncio.to_thread(self.classifier.classify, reading.content)

    async def load_state(self, conversation_id: str) -> ConversationState | None:
        """Return the conversation's state, or None for a new conversation."""
        return await self.stores.run(patterns.state(conversation_id))

    async def _get_ticket(self, message: EventMessage) -> dict[str, Any]:
        """Return the ticket. Raise `ExternalServiceFailed` if it does not exist."""
        try:
            return await self.desk.get_ticket(message.conversation_id)
        except NotFound as error:
            raise _build_ticket_missing(message) from error

    async def _find_message(self, message: EventMessage) -> DeskMessage | None:
        """Return the event's message, or None if the help desk does not have it."""
        wanted = message.source_message_id or ""
        try:
            return responses.parse_message(await self.desk.get_message(message.conversation_id, wanted))
        except NotFound:
            # The help desk does not know a hashed id: compare with the ids of all messages.
            messages = await self._list_messages(message) if wanted.startswith("h-") else []
            return next((each for each in messages if each.id and to_stored_id(each.id) == wanted), None)

    async def _add_order(self, facts: Facts) -> Facts:
        """Add the customer's order that the message names, if a reply could use it: not late, not in safe
        mode. A number counts only if the shop confirms it for the customer's address.
        """
        if facts.is_late or facts.flags.safe_mode or not facts.event.customer_email:
            return facts
        found = [await self._find_order(number) for number in facts.order_numbers]
        confirmed = [
            order
            for number, order in zip(facts.order_numbers, found, strict=True)
            if order is not None and is_verified(order, number, facts.event.customer_email)
        ]
        return replace(facts, order=confirmed[0]) if len(confirmed) == 1 else facts

    async def _find_order(self, number: str) -> Order | None:
        """Return the shop's order with a number, or None."""
        found = await self.shop.get_order(number)
        if found is None:
            return None
        return Order(
            number=responses.clean_text(found.get("number")),
            email_sha256=hash_email(responses.clean_text(found.get("email"))),
            status=responses.clean_text(found.get("status")),
            detail=_format_detail(found),
        )


def _build_mail(message: DeskMessage) -> MailMessage:
    """Build the mail of a fetched message, from its text or else its HTML."""
    body = message.text if message.text.strip() and not _is_html(message.text) else ""
    return MailMessage(
        subject=message.subject or message.headers.get("subject", ""),
        body=body or convert_html(message.html or message.text),
        headers=message.headers,
        content_type=message.headers.get("content-type", "").split(";")[0].strip().lower() or "text/plain",
        report_type=_get_report_type(message.headers.get("content-type", "")),
    )


def _build_event_message(
    message: EventMessage, desk_message: DeskMessage, at: datetime | None, bucket_s: int
) -> EventMessage:
    """Build the queue message for a message found at the help desk, keyed by its id or, without one, by the
    hash of its text.
    """
    message_id = to_stored_id(desk_message.id) if desk_message.id else None
    key = build_event_key(
        message.conversation_id,
        message_id,
        text=desk_message.text,
        created_at=at,
        received_at=message.received_at,
        bucket_s=bucket_s,
    )
    return message.model_copy(
        update={
            "event_id": key.key,
            "previous_event_id": key.previous,
            "next_event_id": key.next,
            "source_message_id": message_id,
            "message_key": key.message,
            "key_source": key.source,
            "payload_sha256": fingerprint({"message": key.message}),
            "created_at": at,
        }
    )


def _build_inbound_event(
    message: EventMessage, ticket: responses.DeskTicket, desk_message: DeskMessage
) -> InboundEvent:
    """Build the inbound event of a fetched message. Raise `ExternalServiceFailed` if its fields are invalid.

    The trigger is left out: it says nothing about the message. A time after the webhook's arrival is replaced
    by the arrival, because it would make all later messages look late.
    """
    written_at = message.created_at or desk_message.written_at
    try:
        return InboundEvent(
            conversation_id=message.conversation_id,
            message_id=message.source_message_id,
            channel=message.channel if message.channel != UNKNOWN else ticket.channel or UNKNOWN,
            author=desk_message.author or message.author,
            text=desk_message.text,
            created_at=None if written_at is None else min(written_at, message.received_at),
            customer_email=desk_message.email or ticket.email,
            tags=ticket.tags,
        )
    except ValidationError as error:
        fields = ", ".join(sorted({str(one["loc"][0]) for one in error.errors() if one["loc"]}))
        raise ExternalServiceFailed(
            f"Invalid help desk response for {message.event_id}: {fields}.", may_be_done=False
        ) from None


def _is_html(text: str) -> bool:
    """Return whether a help desk put HTML into the field of the text."""
    return re.match(r"\s*<(?:!doctype|html|body|div|p|table|span)\b", text, re.IGNORECASE) is not None


def _get_report_type(content_type: str) -> str:
    """Return the `report-type` of a content type."""
    found = re.search(r'report-type="?([\w-]+)', content_type, re.IGNORECASE)
    return found[1].lower() if found else ""


def _build_ticket_missing(message: EventMessage) -> ExternalServiceFailed:
    """Build the error for a ticket that the help desk does not have."""
    return ExternalServiceFailed(
        f"The help desk has no ticket {message.conversation_id}: it was deleted, or {HELPDESK_VARIABLE} is "
        "wrong. After the last attempt the event goes to the dead-letter queue.",
        may_be_done=False,
    )


def _format_detail(order: dict[str, Any]) -> str:
    """Format the carrier and the expected date. Never include the tracking number: it lets anyone follow the
    parcel.
    """
    carrier, expected = (
        responses.clean_text(order.get("carrier")),
        responses.clean_text(order.get("expected")),
    )
    parts = [f"It travels with {carrier}."] if carrier else []
    parts += [f"It is expected on {expected}."] if expected else []
    return " ".join(parts)
