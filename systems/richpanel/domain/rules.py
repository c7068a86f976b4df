"""Pure decisions about an event, each with its reasons in words.

    facts (event, state, flags, classification, order, time) → Decision (actions, shadow actions, reasons)

Every event is routed, unless the middleware or an agent caused it. Everything else needs the feature flags,
the rollout of the channel, an event that is not older than the last, and a conversation that no person has
taken over. `Decision.shadow_actions` are what shadow mode would have done: they are recorded and never done.
`state_updates.py` applies a decision to the conversation's state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from holdfast.ai import Classification
from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.idempotency_keys import build_assign_key, build_note_key, build_reply_key, build_tag_key
from richpanel.domain.inbound_events import InboundEvent
from richpanel.domain.intents import Intent
from richpanel.domain.order_numbers import OrderCandidate, find_answer_numbers
from richpanel.domain.orders import Order, get_last4, is_verified, normalise_number
from richpanel.domain.reading import Reading, read_text
from richpanel.domain.routing import MIN_AUTOMATE_CONFIDENCE, SUGGESTIONS, Routing, Team, choose_team
from richpanel.domain.templates import get_template, is_own_reply
from richpanel.domain.working_hours import WorkingHours
from richpanel.model.entities import ActionType, ConversationState, Mode
from richpanel.settings import RichpanelSettings

# The middleware's own tags. One of them in a trigger means that the middleware caused the event.
TAG_PREFIX: Final = "mw-"
ROUTED_TAG: Final = "mw-routed"
HANDED_OVER_TAG: Final = "mw-handed-over"
AUTOMATIC_TAG: Final = "mw-automatic"
LANGUAGE_TAG_PREFIX: Final = "mw-language-"
NEED_ORDER_NUMBER: Final = "need_order_number"
# The customer wants a person, even if automation could answer.
HUMAN_INTENTS: Final = frozenset({Intent.human_request, Intent.complaint})


@dataclass(frozen=True)
class Facts:
    """The complete input of a decision. `message_key` is the message's id, or the hash in its place."""

    event: InboundEvent
    message_key: str
    classification: Classification
    flags: FeatureFlags
    now: datetime
    state: ConversationState | None = None
    # The order of this customer that the message names: the shop has confirmed it.
    order: Order | None = None
    # What the message says; by default its text is read as one without headers.
    reading: Reading | None = None
    # The intents whose automated replies have stopped, each with the reason.
    stopped_intents: Mapping[str, str] = field(default_factory=dict)
    hours: WorkingHours = field(default_factory=WorkingHours)
    settings: RichpanelSettings = field(default_factory=RichpanelSettings)

    @property
    def is_awaiting_number(self) -> bool:
        """Whether the customer was asked for an order number and the question is still pending."""
        flow = self.state.get_pending_flow(self.now) if self.state else None
        return flow is not None and flow.type == NEED_ORDER_NUMBER

    @cached_property
    def message(self) -> Reading:
        """What the message says: the sender's own words."""
        return self.reading if self.reading is not None else read_text(self.event.text)

    @cached_property
    def order_candidates(self) -> tuple[OrderCandidate, ...]:
        """The numbers of the message that may be order numbers. In an answer to the question for the number,
        four digits are enough.
        """
        if self.is_awaiting_number and not self.message.automatic:
            return find_answer_numbers(self.message.content)
        return self.message.order_candidates

    @property
    def order_numbers(self) -> tuple[str, ...]:
        """The candidates in the form for comparison. The worker asks the shop about each before it
        decides.
        """
        return tuple(normalise_number(each.text) for each in self.order_candidates)

    @property
    def named_number(self) -> str | None:
        """The number that the customer gave as an order number, or None: bare numbers count only in an
        answer.
        """
        given = [each for each in self.order_candidates if each.is_named or self.is_awaiting_number]
        return normalise_number(given[0].text) if len(given) == 1 else None

    @property
    def names_several_orders(self) -> bool:
        """Whether the customer gave several order numbers."""
        return sum(each.is_named for each in self.order_candidates) > 1

    @property
    def order_number_attempts(self) -> int:
        """The number of times the pending question was asked."""
        flow = self.state.get_pending_flow(self.now) if self.state else None
        return flow.attempts if flow is not None else 0

    @property
    def is_late(self) -> bool:
        """Whether a newer event of the conversation was already processed."""
        last = self.state.last_event_created_at if self.state else None
        created = self.event.created_at
        return last is not None and created is not None and created < last


@dataclass(frozen=True)
class HelpDeskAction:
    """One effect at the help desk, under its own key. `target` is a team, a tag or a template."""

    type: ActionType
    key: str
    target: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of a reply or a note."""
        return get_template(self.target).fill(**self.values)

    @property
    def has_all_values(self) -> bool:
        """Whether a reply or a note has a value for each field of its template."""
        return get_template(self.target).fields == self.values.keys()


@dataclass(frozen=True)
class Decision:
    """The actions for an event, and the reasons."""

    mode: Mode
    reasons: tuple[str, ...]
    actions: tuple[HelpDeskAction, ...] = ()
    # Actions that shadow mode records and does not do.
    shadow_actions: tuple[HelpDeskAction, ...] = ()
    routing: Routing | None = None

    @property
    def is_ignored(self) -> bool:
        """Whether the event is not routed at all."""
        return self.routing is None


def decide(facts: Facts) -> Decision:
    """Decide what to do about an event."""
    if echo := _find_echo_reason(facts.event):
        return Decision(Mode.route_only, (echo,))
    routing = _decide_routing(facts)
    routes = _build_routing_actions(facts, routing)
    if blocked := _find_block_reason(facts, routing):
        return Decision(Mode.route_only, (routing.reason, blocked), routes, routing=routing)
    automated, reasons = _decide_automation(facts)
    # A hand-over may assign the team that the routing assigns: one effect, under one key.
    automated = tuple(each for each in automated if each.key not in {route.key for route in routes})
    reasons = (routing.reason, *reasons)
    if stopped := facts.flags.get_block_reason(facts.event.channel):
        if not facts.flags.shadow or facts.flags.safe_mode:
            return Decision(Mode.route_only, (routing.reason, stopped), routes, routing=routing)
        reasons = (*reasons, f"only recorded, in shadow mode: {stopped}")
        return Decision(Mode.automation_candidate, reasons, routes, automated, routing)
    mode = Mode.automation_candidate if automated else Mode.route_only
    return Decision(mode, reasons, (*routes, *automated), routing=routing)


# --- routing ------------------------------------------------------------------------------------------------


def _find_echo_reason(event: InboundEvent) -> str | None:
    """Return why an event is not a customer's, or None. A program that answers itself starts a loop."""
    if event.author != "customer":
        return f"written by an {event.author}, not by a customer: no action"
    if _mentions_own_tag(event.trigger):
        return f"triggered by the middleware's own tag ({event.trigger}): no action"
    return None


def is_written_by_person(event: InboundEvent) -> bool:
    """Return whether a human agent wrote, and so has the conversation.

    The middleware's own tags and template texts appear under an agent's name too and do not count.
    """
    wrote = event.author == "agent" and bool(event.text)
    return wrote and not _mentions_own_tag(event.trigger) and not is_own_reply(event.text)


def _mentions_own_tag(trigger: str) -> bool:
    """Return whether a trigger contains one of the middleware's tags as a word: `tag_added:mw-routed`, but
    not `bmw-club`.
    """
    return any(word.startswith(TAG_PREFIX) for word in re.split(r"[^\w-]+", trigger.lower()))


def _decide_routing(facts: Facts) -> Routing:
    """Choose the team by risk and intent. The answer to a pending question stays with the conversation's
    team.
    """
    known = facts.state.risk_flags if facts.state else frozenset()
    routing = choose_team(facts.message, facts.classification, known)
    current = facts.state.last_routed_team if facts.state else None
    if routing.team is Team.risk:
        return routing
    if facts.message.automatic:
        return routing if current is None else replace(routing, team=Team(current))
    if current is not None and facts.is_awaiting_number and facts.order_numbers:
        reason = f"it has the requested order number, so it stays with {current}"
        return replace(routing, team=Team(current), reason=reason)
    return _prefer_person(facts, routing)


def _prefer_person(facts: Facts, routing: Routing) -> Routing:
    """Route a request for a person to the care team, whatever the classifier says."""
    if routing.team is Team.risk or not facts.message.asks_for_person:
        return routing
    return replace(routing, team=Team.care, reason=f"the customer asks for a person: to {Team.care}")


def _build_routing_actions(facts: Facts, routing: Routing) -> tuple[HelpDeskAction, ...]:
    """Build the assignment to the team, and the tags. Automatic mail does not move a conversation that has a
    team.
    """
    conversation, message = facts.event.conversation_id, facts.message_key
    tags = [
        HelpDeskAction(ActionType.tag, build_tag_key(conversation, tag, message), tag)
        for tag in _list_tags(facts, routing)
    ]
    if facts.message.automatic and _has_team(facts):
        return tuple(tags)
    kind = ActionType.escalate if routing.team is Team.risk else ActionType.route
    assign = HelpDeskAction(kind, build_assign_key(conversation, routing.team, message), routing.team)
    return (assign, *tags)


def _has_team(facts: Facts) -> bool:
    """Return whether the conversation was routed before."""
    return facts.state is not None and facts.state.last_routed_team is not None


def _list_tags(facts: Facts, routing: Routing) -> list[str]:
    """Return the tags of a routed message: `mw-routed`, its risks, its language, and automatic mail."""
    tags = [ROUTED_TAG, *(f"{TAG_PREFIX}risk-{risk}" for risk in sorted(routing.risks))]
    if facts.message.automatic:
        return [AUTOMATIC_TAG] if _has_team(facts) else [*tags, AUTOMATIC_TAG]
    if not facts.message.is_home_language:
        tags.append(f"{LANGUAGE_TAG_PREFIX}{facts.message.language}")
    return tags


# --- automation ---------------------------------------------------------------------------------------------


def _find_block_reason(facts: Facts, routing: Routing) -> str | None:
    """Return why only people may answer this event, whatever the flags say, or None."""
    if routing.team is Team.risk:
        return "at risk, so no automated reply"
    if facts.is_late:
        return "older than the last event that was processed, so it is only routed"
    if HANDED_OVER_TAG in facts.event.tags or (facts.state is not None and facts.state.handed_over):
        return "a person has taken this conversation over"
    if facts.message.automatic:
        return f"automatic mail ({facts.message.automatic}) is never answered"
    if facts.message.refuses_auto_reply:
        return "the sender's system asks for no automatic response"
    if not facts.message.is_home_language:
        return f"only people answer messages in {facts.message.language}"
    if facts.message.asks_for_person or facts.classification.label in HUMAN_INTENTS:
        return f"{_get_human_intent(facts)} is for a person"
    return None


def _get_human_intent(facts: Facts) -> str:
    """Return the intent that needs a person."""
    label = facts.classification.label
    return label if label in HUMAN_INTENTS else Intent.human_request


def _decide_automation(facts: Facts) -> tuple[tuple[HelpDeskAction, ...], tuple[str, ...]]:
    """Return the automated actions and the reasons, whatever the flags say: `decide` applies the flags."""
    is_status = facts.classification.label == Intent.order_status
    if facts.is_awaiting_number and (facts.order_numbers or is_status):
        return _answer_order_status(facts)
    if not facts.classification.is_known or facts.classification.confidence < MIN_AUTOMATE_CONFIDENCE:
        return (), (f"confidence too low for automation: it needs {MIN_AUTOMATE_CONFIDENCE:.0%}",)
    if is_status:
        return _answer_order_status(facts)
    return _suggest_note(facts)


def _answer_order_status(facts: Facts) -> tuple[tuple[HelpDeskAction, ...], tuple[str, ...]]:
    """Answer with the order's status if order number and address match. Otherwise ask for the number, a few
    times; then hand over to a person.
    """
    order, number = facts.order, facts.named_number
    if stopped := facts.stopped_intents.get(Intent.order_status):
        return (), (stopped,)
    if facts.names_several_orders:
        return (), ("it names several orders, so a person answers",)
    if order and is_verified(order, _match_number(facts, order), facts.event.customer_email):
        values = {"last4": get_last4(order.number), "status": order.status, "detail": order.detail}
        return _send_reply(facts, "order_status", "the order number and the address match an order", values)
    if facts.order_number_attempts >= facts.settings.order_attempts_max:
        return _hand_over(
            facts, f"asked {facts.order_number_attempts} times without a match, so a person takes over"
        )
    if number:
        return _ask_order_number(
            facts, "ask_order_number_again", f"no order of the customer ends in {get_last4(number)}"
        )
    name = "ask_order_number_reminder" if facts.order_number_attempts else "ask_order_number"
    return _ask_order_number(facts, name, "the message does not name exactly one order")


def _match_number(facts: Facts, order: Order) -> str | None:
    """Return the number of the message that is the order's, or None."""
    wanted = normalise_number(order.number)
    return next((each for each in facts.order_numbers if each == wanted), None)


def _ask_order_number(
    facts: Facts, name: str, reason: str
) -> tuple[tuple[HelpDeskAction, ...], tuple[str, ...]]:
    """Ask for the order number. Hand over to a person if the question may not be repeated yet."""
    if throttled := _find_throttle_reason(facts, name):
        return _hand_over(facts, f"{reason}, and {throttled}, so a person takes over")
    return _send_reply(facts, name, reason)


def _hand_over(facts: Facts, reason: str) -> tuple[tuple[HelpDeskAction, ...], tuple[str, ...]]:
    """Send the hand-over reply, tag the ticket and assign the care team."""
    conversation = facts.event.conversation_id
    is_open = facts.hours.is_open(facts.now)
    values = {} if is_open else {"opens": facts.hours.format_next_opening(facts.now)}
    name = "handed_over" if is_open else "handed_over_closed"
    reply, reasons = _send_reply(facts, name, reason, values)
    tag = HelpDeskAction(
        ActionType.tag, build_tag_key(conversation, HANDED_OVER_TAG, facts.message_key), HANDED_OVER_TAG
    )
    person = HelpDeskAction(
        ActionType.escalate, build_assign_key(conversation, Team.care, facts.message_key), Team.care
    )
    return (*reply, tag, person), reasons


def _suggest_note(facts: Facts) -> tuple[tuple[HelpDeskAction, ...], tuple[str, ...]]:
    """Build the note that suggests an answer to the agent; no action if the intent has none."""
    name = SUGGESTIONS.get(facts.classification.label)
    if name is None:
        return (), (f"there is no suggestion for {facts.classification.label}",)
    key = build_note_key(facts.event.conversation_id, name, facts.message_key)
    return (HelpDeskAction(ActionType.suggest, key, name),), (f"{name} is suggested to the agent",)


def _send_reply(
    facts: Facts, name: str, reason: str, values: Mapping[str, str] | None = None
) -> tuple[tuple[HelpDeskAction, ...], tuple[str, ...]]:
    """Build a reply from the template `name`; no action if it is throttled. Return it with the reasons."""
    if throttled := _find_throttle_reason(facts, name):
        return (), (reason, throttled)
    key = build_reply_key(facts.event.conversation_id, facts.message_key)
    return (HelpDeskAction(ActionType.auto_reply, key, name, values or {}),), (reason, f"{name} is sent")


def _find_throttle_reason(facts: Facts, name: str) -> str | None:
    """Return why a reply is not sent: the same one too soon, or too many in one conversation. None if it may
    be sent.
    """
    replies = facts.state.replies if facts.state else {}
    if sum(each.count for each in replies.values()) >= facts.settings.replies_max:
        return f"{facts.settings.replies_max} replies were sent in this conversation: the limit is reached"
    pause = timedelta(seconds=facts.settings.reply_pause_s)
    if name in replies and facts.now - replies[name].last_sent_at < pause:
        return (
            f"{name} was already sent at {replies[name].last_sent_at:%Y-%m-%d %H:%M} UTC: "
            "too soon to send it again"
        )
    return None
