"""What is done about an event: pure decisions, each with its reasons in words.

    facts (event, state, switches, classification, order, time) → Decision (actions, what would be done, reasons)

An event is always routed, unless it is our own or an agent's. Everything else needs the switches, the rollout of the
channel, an event that is not older than the last, and a conversation that no person has taken over. What shadow mode
would have done is in `Decision.would`: it is recorded and never done. `progress.py` says what the decision makes of the
conversation's state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from holdfast.ai import Classification
from richpanel.hours import WorkingHours
from richpanel.intents import Intent
from richpanel.keys import assign_key, note_key, reply_key, tag_key
from richpanel.model import ActionType, ConversationState, Mode
from richpanel.orders import Order, is_verified, last4, order_number
from richpanel.payloads import InboundEvent
from richpanel.routing import AUTOMATE_CONFIDENCE_MIN, SUGGESTIONS, Routing, Team, routed
from richpanel.settings import RichpanelSettings
from richpanel.switches import SwitchPosition
from richpanel.templates import is_ours, template

# Our own tags. One of them in a trigger means that the event is an echo of ours.
TAG_PREFIX: Final = "mw-"
ROUTED_TAG: Final = "mw-routed"
HANDED_OVER_TAG: Final = "mw-handed-over"
NEED_ORDER_NUMBER: Final = "need_order_number"
# With these a person is wanted, whatever could be said by itself.
FOR_PEOPLE: Final = frozenset({Intent.human_request, Intent.complaint})


@dataclass(frozen=True)
class Facts:
    """All that a decision depends on. `message_key` is the message's id, or the hash that stands for it."""

    event: InboundEvent
    message_key: str
    classification: Classification
    switches: SwitchPosition
    now: datetime
    state: ConversationState | None = None
    order: Order | None = None
    hours: WorkingHours = field(default_factory=WorkingHours)
    settings: RichpanelSettings = field(default_factory=RichpanelSettings)

    @property
    def awaits_number(self) -> bool:
        flow = self.state.flow_at(self.now) if self.state else None
        return flow is not None and flow.type == NEED_ORDER_NUMBER

    @property
    def number(self) -> str | None:
        """The order number that the message names: what the handler looks up before it asks for a decision."""
        return order_number(self.event.text, expected=self.awaits_number)

    @property
    def attempts(self) -> int:
        flow = self.state.flow_at(self.now) if self.state else None
        return flow.attempts if flow is not None else 0

    @property
    def is_late(self) -> bool:
        """Whether a newer event of the conversation was processed before."""
        last = self.state.last_event_created_at if self.state else None
        created = self.event.created_at
        return last is not None and created is not None and created < last


@dataclass(frozen=True)
class Action:
    """One effect at the help desk, under its own key. `target` is a team, a tag or a template."""

    type: ActionType
    key: str
    target: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Of a reply or a note: what it says."""
        return template(self.target).filled(**self.values)

    @property
    def can_be_said(self) -> bool:
        """Whether a reply or a note has a value for each field of its template."""
        return template(self.target).fields == self.values.keys()


@dataclass(frozen=True)
class Decision:
    mode: Mode
    reasons: tuple[str, ...]
    actions: tuple[Action, ...] = ()
    # What shadow mode would have done.
    would: tuple[Action, ...] = ()
    routing: Routing | None = None

    @property
    def is_ignored(self) -> bool:
        return self.routing is None


def decide(facts: Facts) -> Decision:
    if echo := _echo(facts.event):
        return Decision(Mode.route_only, (echo,))
    routing = _routing(facts)
    routes = _routes(facts, routing)
    if held := _held_back(facts, routing):
        return Decision(Mode.route_only, (routing.reason, held), routes, routing=routing)
    automated, reasons = _automated(facts)
    # Who takes over may be the team that has it: one effect, under one key.
    automated = tuple(each for each in automated if each.key not in {route.key for route in routes})
    reasons = (routing.reason, *reasons)
    if stopped := facts.switches.held_back(facts.event.channel):
        if not facts.switches.shadow or facts.switches.safe_mode:
            return Decision(Mode.route_only, (routing.reason, stopped), routes, routing=routing)
        reasons = (*reasons, f"only recorded, in shadow mode: {stopped}")
        return Decision(Mode.automation_candidate, reasons, routes, automated, routing)
    mode = Mode.automation_candidate if automated else Mode.route_only
    return Decision(mode, reasons, (*routes, *automated), routing=routing)


# --- routing -----------------------------------------------------------------------------------------------------


def _echo(event: InboundEvent) -> str | None:
    """Why an event is none of a customer's: loops begin where a program answers itself."""
    if event.author != "customer":
        return f"written by an {event.author}, not by a customer: nothing is done"
    if _names_our_tag(event.trigger):
        return f"an echo of our own tag ({event.trigger}): nothing is done"
    return None


def is_a_person(event: InboundEvent) -> bool:
    """Whether an agent has written: then a person has the conversation. Not so what only bears an agent's name because
    we did it: our tags, and the texts of our templates.
    """
    wrote = event.author == "agent" and bool(event.text)
    return wrote and not _names_our_tag(event.trigger) and not is_ours(event.text)


def _names_our_tag(trigger: str) -> bool:
    """As a word of its own: `tag_added:mw-routed`, and not `bmw-club`."""
    return any(word.startswith(TAG_PREFIX) for word in re.split(r"[^\w-]+", trigger.lower()))


def _routing(facts: Facts) -> Routing:
    """By risk and intent. An answer to our own question stays with the team that has the conversation."""
    known = facts.state.risk_flags if facts.state else frozenset()
    routing = routed(facts.event.text, facts.classification, known)
    has = facts.state.last_routed_team if facts.state else None
    if routing.team is Team.risk or has is None or not (facts.awaits_number and facts.number):
        return routing
    return replace(
        routing, team=Team(has), reason=f"the order number that was asked for, so it stays with {has}"
    )


def _routes(facts: Facts, routing: Routing) -> tuple[Action, ...]:
    conversation, message = facts.event.conversation_id, facts.message_key
    tags = [ROUTED_TAG, *(f"{TAG_PREFIX}risk-{risk}" for risk in sorted(routing.risks))]
    kind = ActionType.escalate if routing.team is Team.risk else ActionType.route
    return (
        Action(kind, assign_key(conversation, routing.team, message), routing.team),
        *(Action(ActionType.tag, tag_key(conversation, tag, message), tag) for tag in tags),
    )


# --- automation --------------------------------------------------------------------------------------------------


def _held_back(facts: Facts, routing: Routing) -> str | None:
    """Why this event is for people alone, whatever the switches say."""
    if routing.team is Team.risk:
        return "at risk, so nothing is answered by itself"
    if facts.is_late:
        return "older than the last event that was processed, so it is routed and triggers nothing"
    if HANDED_OVER_TAG in facts.event.tags or (facts.state is not None and facts.state.handed_over):
        return "a person has taken this conversation over"
    if facts.classification.label in FOR_PEOPLE:
        return f"{facts.classification.label} is for a person"
    return None


def _automated(facts: Facts) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """What could be done by itself, and why that."""
    if facts.awaits_number and (facts.number or facts.classification.label == Intent.order_status):
        return _order_status(facts)
    if not facts.classification.is_known or facts.classification.confidence < AUTOMATE_CONFIDENCE_MIN:
        return (), (f"not sure enough to answer by itself: that needs {AUTOMATE_CONFIDENCE_MIN:.0%}",)
    if facts.classification.label == Intent.order_status:
        return _order_status(facts)
    return _suggested(facts)


def _order_status(facts: Facts) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """Told on a match; else the number is asked for, a few times; then a person takes over."""
    number = facts.number
    if number and facts.order and is_verified(facts.order, number, facts.event.customer_email):
        values = {"last4": last4(number), "status": facts.order.status, "detail": facts.order.detail}
        return _reply(facts, "order_status", "the order number and the address match an order", values)
    if facts.attempts >= facts.settings.order_attempts_max:
        return _handed_over(facts, f"asked {facts.attempts} times in vain, so a person takes over")
    if number:
        return _asked(facts, "ask_order_number_again", f"no order of the writer ends in {last4(number)}")
    name = "ask_order_number_again" if facts.attempts else "ask_order_number"
    return _asked(facts, name, "the message names no one order")


def _asked(facts: Facts, name: str, reason: str) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """Who may not be asked again so soon is not left waiting either."""
    if throttled := _throttled(facts, name):
        return _handed_over(facts, f"{reason}, and {throttled}, so a person takes over")
    return _reply(facts, name, reason)


def _handed_over(facts: Facts, reason: str) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    conversation = facts.event.conversation_id
    is_open = facts.hours.are_open(facts.now)
    values = {} if is_open else {"opens": facts.hours.next_opening(facts.now)}
    name = "handed_over" if is_open else "handed_over_closed"
    reply, reasons = _reply(facts, name, reason, values)
    tag = Action(ActionType.tag, tag_key(conversation, HANDED_OVER_TAG, facts.message_key), HANDED_OVER_TAG)
    person = Action(ActionType.escalate, assign_key(conversation, Team.care, facts.message_key), Team.care)
    return (*reply, tag, person), reasons


def _suggested(facts: Facts) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    name = SUGGESTIONS.get(facts.classification.label)
    if name is None:
        return (), (f"there is no suggestion for {facts.classification.label}",)
    key = note_key(facts.event.conversation_id, name, facts.message_key)
    return (Action(ActionType.suggest, key, name),), (f"{name} is suggested to the agent",)


def _reply(
    facts: Facts, name: str, reason: str, values: Mapping[str, str] | None = None
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    if throttled := _throttled(facts, name):
        return (), (reason, throttled)
    key = reply_key(facts.event.conversation_id, facts.message_key)
    return (Action(ActionType.auto_reply, key, name, values or {}),), (reason, f"{name} is sent")


def _throttled(facts: Facts, name: str) -> str | None:
    """Why an answer is not sent again: the same one too soon, or too many in one conversation."""
    replies = facts.state.replies if facts.state else {}
    if sum(each.count for each in replies.values()) >= facts.settings.replies_max:
        return f"{facts.settings.replies_max} answers were sent in this conversation: no more by itself"
    pause = timedelta(seconds=facts.settings.reply_pause_s)
    if name in replies and facts.now - replies[name].last_sent_at < pause:
        return (
            f"{name} was sent at {replies[name].last_sent_at:%Y-%m-%d %H:%M} UTC already: not again so soon"
        )
    return None
