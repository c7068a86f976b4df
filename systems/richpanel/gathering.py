"""What a decision needs to know about an event, fetched when it is worked on: the message, the writer, the order.

    webhook → the message it is about (`Told`) → facts

A webhook names its message by an id, by a hash of its text, or not at all. Whatever it says of the author counts only
where the help desk does not tell one. Nothing of this is kept: the text lives as long as the attempt does.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from holdfast import Stores
from holdfast.ai import Classifier
from holdfast.errors import NotFound, PartyFailed
from holdfast.guarantees import fingerprint
from richpanel import answers, patterns
from richpanel.answers import Said
from richpanel.keys import event_key
from richpanel.model import ConversationState
from richpanel.orders import Order, email_sha256
from richpanel.parties import HelpDesk, OrderDesk
from richpanel.payloads import UNKNOWN, EventMessage, InboundEvent, id_kept
from richpanel.rules import Facts
from richpanel.settings import HELPDESK_VARIABLE, RichpanelSettings
from richpanel.switches import SwitchPosition

# A webhook that names no message is about what was written since the last event, and so long before: webhooks overtake
# each other.
LOOK_BACK: Final = timedelta(days=1)
# The time of a webhook and that of its message may lie so many buckets apart.
BUCKETS_APART: Final = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Told:
    """An event, and the message it is about where that was fetched to find its key."""

    message: EventMessage
    said: Said | None = None


@dataclass(frozen=True)
class Gatherer:
    """Asks the help desk and the shop."""

    stores: Stores
    desk: HelpDesk
    shop: OrderDesk
    classifier: Classifier
    settings: RichpanelSettings

    # --- which message ----------------------------------------------------------------------------------------

    async def meant(self, message: EventMessage) -> Told | None:
        """Of an event without an id: the message whose text has the hash of its key, under the id it has at the help
        desk. None while there is none."""
        at = message.created_at or message.received_at
        apart_max = timedelta(seconds=BUCKETS_APART * self.settings.bucket_s)
        found = [
            (apart, each)
            for each in await self._written(message)
            if self._hash(message, each) == message.message_key
            and (apart := abs((each.written_at or at) - at)) <= apart_max
        ]
        if not found:
            return None
        _, nearest = min(found, key=lambda pair: pair[0])
        if not nearest.id:
            return Told(message, nearest)
        return Told(_named(message, nearest, message.created_at, self.settings.bucket_s), nearest)

    async def news(self, message: EventMessage) -> list[Told]:
        """Of a webhook that names no message: one event for each that the customer wrote lately, the oldest first.

        Those that were worked on before are known by their keys, and so are done once.
        """
        since = await self._since(message)
        at, found = since, []
        for each in await self._written(message):
            if each.written_at is None:
                log.warning("A message of %s has no time that can be read.", message.conversation_id)
            # Messages come in their order: one without a time was written after the one before it.
            at = each.written_at or at
            if at >= since and each.author in ("customer", None) and (each.id or each.text):
                found.append((at, each))
        return [
            Told(_named(message, each, at, self.settings.bucket_s), each)
            for at, each in sorted(found, key=lambda pair: pair[0])
        ]

    async def _written(self, message: EventMessage) -> list[Said]:
        try:
            return [answers.said(each) for each in await self.desk.messages(message.conversation_id)]
        except NotFound as error:
            raise _ticket_missing(message) from error

    async def _since(self, message: EventMessage) -> datetime:
        """As far back as records reach, and no further: what was done before is known no more."""
        oldest = message.received_at - timedelta(days=self.settings.idempotency_days - 1)
        state = await self.state(message.conversation_id)
        if state is None or state.last_event_created_at is None:
            return oldest
        return max(oldest, min(state.last_event_created_at, message.received_at) - LOOK_BACK)

    def _hash(self, message: EventMessage, said: Said) -> str:
        return event_key(
            message.conversation_id,
            None,
            text=said.text if said.text.strip() else "",
            created_at=message.created_at,
            received_at=message.received_at,
            bucket_s=self.settings.bucket_s,
        ).message

    # --- facts ------------------------------------------------------------------------------------------------

    async def facts(self, told: Told, position: SwitchPosition) -> Facts | None:
        """None where the help desk has the ticket, and the message no longer."""
        ticket = answers.ticket(await self._ticket(told.message))
        said = told.said or await self._said(told.message)
        if said is None:
            return None
        event = _event(told.message, ticket, said)
        facts = Facts(
            event=event,
            message_key=told.message.message_key,
            classification=self.classifier.classify(event.text),
            switches=position,
            now=datetime.fromtimestamp(self.stores.clock.now(), UTC),
            state=await self.state(told.message.conversation_id),
            settings=self.settings,
        )
        return await self._with_order(facts)

    async def state(self, conversation_id: str) -> ConversationState | None:
        return await self.stores.run(patterns.state(conversation_id))

    async def _ticket(self, message: EventMessage) -> dict[str, Any]:
        try:
            return await self.desk.ticket(message.conversation_id)
        except NotFound as error:
            raise _ticket_missing(message) from error

    async def _said(self, message: EventMessage) -> Said | None:
        wanted = message.source_message_id or ""
        try:
            return answers.said(await self.desk.message(message.conversation_id, wanted))
        except NotFound:
            # One whose id is kept as a hash is asked for among all.
            written = await self._written(message) if wanted.startswith("h-") else []
            return next((each for each in written if each.id and id_kept(each.id) == wanted), None)

    async def _with_order(self, facts: Facts) -> Facts:
        """The order is asked for only where an answer could speak of it."""
        if facts.number is None or facts.is_late or facts.switches.safe_mode:
            return facts
        found = await self.shop.order(facts.number)
        if found is None:
            return facts
        order = Order(
            number=answers.cleaned(found.get("number")),
            email_sha256=email_sha256(answers.cleaned(found.get("email"))),
            status=answers.cleaned(found.get("status")),
            detail=_detail(found),
        )
        return replace(facts, order=order)


def _named(message: EventMessage, said: Said, at: datetime | None, bucket_s: int) -> EventMessage:
    """The event of a message that was found, under its own id; without one, under the hash of its text."""
    message_id = id_kept(said.id) if said.id else None
    key = event_key(
        message.conversation_id,
        message_id,
        text=said.text,
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


def _event(message: EventMessage, ticket: answers.Ticket, said: Said) -> InboundEvent:
    """What triggered the webhook says nothing of the message, so it is left out. A time that is still to come would make
    all that follows late: nothing was written after it was heard of."""
    written_at = message.created_at or said.written_at
    try:
        return InboundEvent(
            conversation_id=message.conversation_id,
            message_id=message.source_message_id,
            channel=message.channel if message.channel != UNKNOWN else ticket.channel or UNKNOWN,
            author=said.author or message.author,
            text=said.text,
            created_at=None if written_at is None else min(written_at, message.received_at),
            customer_email=said.email or ticket.email,
            tags=ticket.tags,
        )
    except ValidationError as error:
        wrong = ", ".join(sorted({str(one["loc"][0]) for one in error.errors() if one["loc"]}))
        raise PartyFailed(
            f"What the help desk tells of {message.event_id} cannot be read: {wrong}.", may_be_done=False
        ) from None


def _ticket_missing(message: EventMessage) -> PartyFailed:
    return PartyFailed(
        f"The help desk knows no ticket {message.conversation_id}: it was deleted, or {HELPDESK_VARIABLE} is not its "
        "address. If it stays so, the event goes to the dead letters.",
        may_be_done=False,
    )


def _detail(order: dict[str, Any]) -> str:
    """What is told beside the status. Never a tracking number: whoever has it can follow the parcel."""
    carrier, expected = answers.cleaned(order.get("carrier")), answers.cleaned(order.get("expected"))
    parts = [f"It travels with {carrier}."] if carrier else []
    parts += [f"It is expected on {expected}."] if expected else []
    return " ".join(parts)
