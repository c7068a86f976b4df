"""What a decision needs to know about an event, fetched when it is worked on: the text by its id, the writer, the order.

Nothing of this is kept. The text lives as long as the attempt does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Stores
from holdfast.ai import Classifier
from holdfast.errors import NotFound
from holdfast.guarantees import fingerprint
from richpanel import patterns
from richpanel.keys import event_key
from richpanel.model import ConversationState
from richpanel.orders import Order, email_sha256
from richpanel.parties import HelpDesk, OrderDesk
from richpanel.payloads import TEXT_CHARS_MAX, EventMessage, InboundEvent
from richpanel.rules import Facts
from richpanel.settings import RichpanelSettings
from richpanel.switches import SwitchPosition

# How far back a webhook that names no message is looked after: well within the life of a record.
LOOK_BACK: Final = timedelta(days=1)


@dataclass(frozen=True)
class Gatherer:
    """Asks the help desk and the shop."""

    stores: Stores
    desk: HelpDesk
    shop: OrderDesk
    classifier: Classifier
    settings: RichpanelSettings

    async def facts(self, message: EventMessage, position: SwitchPosition) -> Facts | None:
        """None where the help desk no longer has the ticket or the message."""
        try:
            event = await self._event(message)
        except NotFound:
            return None
        facts = Facts(
            event=event,
            message_key=message.message_key,
            classification=self.classifier.classify(event.text),
            switches=position,
            now=datetime.fromtimestamp(self.stores.clock.now(), UTC),
            state=await self.state(message.conversation_id),
            settings=self.settings,
        )
        return await self._with_order(facts)

    async def named(self, message: EventMessage) -> list[EventMessage]:
        """Of a webhook that names no message: one event for each that the customer wrote lately, the oldest first.

        Those that were worked on before are known by their ids, and so are done once.
        """
        try:
            written = await self.desk.messages(message.conversation_id)
        except NotFound:
            return []
        since = message.received_at - LOOK_BACK
        found = [
            (written_at, each)
            for each in written
            if each.get("author") == "customer"
            and each.get("id")
            and (written_at := _moment(each.get("created_at"))) is not None
            and written_at >= since
        ]
        return [_named(message, str(each["id"]), at) for at, each in sorted(found, key=lambda pair: pair[0])]

    async def state(self, conversation_id: str) -> ConversationState | None:
        return await self.stores.run(patterns.state(conversation_id))

    async def _event(self, message: EventMessage) -> InboundEvent:
        ticket = await self.desk.ticket(message.conversation_id)
        said = await self._said(message)
        return InboundEvent(
            conversation_id=message.conversation_id,
            message_id=message.source_message_id,
            trigger=message.trigger,
            channel=message.channel,
            author=message.author,
            text=str(said.get("text", ""))[:TEXT_CHARS_MAX],
            created_at=message.created_at,
            customer_email=_email(ticket),
            tags=tuple(str(each) for each in ticket.get("tags", ()))[:100],
        )

    async def _said(self, message: EventMessage) -> dict[str, Any]:
        """The message itself; where it has no id, the last that the customer wrote until then."""
        if message.source_message_id is not None:
            return await self.desk.message(message.conversation_id, message.source_message_id)
        written = await self.desk.messages(message.conversation_id)
        until = message.created_at or message.received_at
        for each in reversed(written):
            written_at = _moment(each.get("created_at"))
            if each.get("author") == "customer" and (written_at is None or written_at <= until):
                return dict(each)
        return {}

    async def _with_order(self, facts: Facts) -> Facts:
        """The order is asked for only where an answer could speak of it."""
        if facts.number is None or facts.is_late or facts.switches.safe_mode:
            return facts
        found = await self.shop.order(facts.number)
        if found is None:
            return facts
        order = Order(
            number=str(found.get("number", "")),
            email_sha256=email_sha256(str(found.get("email", ""))),
            status=str(found.get("status", "")),
            detail=_detail(found),
        )
        return Facts(**{**vars(facts), "order": order})


def _named(message: EventMessage, message_id: str, written_at: datetime) -> EventMessage:
    key = event_key(message.conversation_id, message_id, received_at=message.received_at)
    return message.model_copy(
        update={
            "event_id": key.key,
            "previous_event_id": None,
            "source_message_id": message_id,
            "message_key": key.message,
            "key_source": key.source,
            "payload_sha256": fingerprint({"message_id": message_id}),
            "created_at": written_at,
        }
    )


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _email(ticket: dict[str, Any]) -> str | None:
    customer = ticket.get("customer")
    found = customer.get("email") if isinstance(customer, dict) else None
    return str(found) if found else None


def _detail(order: dict[str, Any]) -> str:
    """What is told beside the status. Never a tracking number: whoever has it can follow the parcel."""
    parts = [f"It travels with {order['carrier']}."] if order.get("carrier") else []
    parts += [f"It is expected on {order['expected']}."] if order.get("expected") else []
    return " ".join(parts)
