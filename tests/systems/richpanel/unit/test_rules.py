"""Pure decisions: the team for a message, automatic replies and their limits, and the reasons."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.ai import UNKNOWN, Classification
from richpanel.domain.feature_flags import FeatureFlags, build_switches
from richpanel.domain.idempotency_keys import parse_key
from richpanel.domain.inbound_events import InboundEvent
from richpanel.domain.intents import Intent, get_intent_classifier
from richpanel.domain.order_numbers import find_answer_numbers, find_order_candidates
from richpanel.domain.orders import Order, hash_email, is_verified, normalise_number
from richpanel.domain.routing import TEAMS, Team, find_risks
from richpanel.domain.rules import HANDED_OVER_TAG, Decision, Facts, decide
from richpanel.domain.templates import load_templates
from richpanel.domain.working_hours import WorkingHours
from richpanel.model import replay_archive
from richpanel.model.entities import ActionType, ConversationState, Mode, PendingFlow
from richpanel.settings import RANGES, RichpanelSettings
from richpanel.workers.state_updates import build_customer_link, build_next_state

# A Wednesday, in working hours.
NOW = datetime(2026, 2, 4, 12, tzinfo=UTC)
ON = FeatureFlags(safe_mode=False, automation_enabled=True, channels=frozenset({"email"}))
OFF = FeatureFlags(safe_mode=False)
ADA = "ada@example.com"
ORDER = Order("48213", hash_email(ADA), "on its way", "It should arrive on Friday.")


def make_facts(
    text: str = "where is my order",
    label: str = Intent.order_status,
    confidence: float = 0.9,
    switches: FeatureFlags = ON,
    **more: Any,
) -> Facts:
    """Make facts about one message. `label` is its intent; `more` are fields of the event or of `Facts`."""
    about = {"author", "tags", "trigger", "channel", "created_at", "customer_email", "message_id"}
    event: dict[str, Any] = {
        "conversation_id": "c-1",
        "message_id": "m-1",
        "channel": "email",
        "customer_email": ADA,
    }
    event |= {name: more.pop(name) for name in about & more.keys()}
    return Facts(
        InboundEvent(text=text, **event),
        event["message_id"],
        Classification(label, confidence),
        switches,
        NOW,
        **more,
    )


def list_targets(decision: Decision, kind: ActionType) -> list[str]:
    """Return the targets of a decision's actions of one type."""
    return [action.target for action in decision.actions if action.type is kind]


def apply_decision(given: Facts, **changes: Any) -> Facts:
    """Return the facts of the same conversation after this decision."""
    return replace(given, state=build_next_state(given, decide(given)), **changes)


# --- routing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intent", Intent)
def test_every_intent_has_a_team(intent: Intent) -> None:
    decision = decide(make_facts("hm", intent))

    assert decision.routing is not None and decision.routing.team == TEAMS[intent]


@pytest.mark.proves("RP-46")
def test_without_switches_an_event_is_only_routed() -> None:
    decision = decide(make_facts(switches=FeatureFlags.from_item(None, NOW)))

    assert decision.mode is Mode.route_only
    assert {action.type for action in decision.actions} == {ActionType.route, ActionType.tag}
    assert decision.shadow_actions == ()
    assert "no switches are set, so safe mode is on" in decision.reasons


@pytest.mark.parametrize("label", [UNKNOWN, Intent.order_status])
def test_low_confidence_goes_to_triage(label: str) -> None:
    decision = decide(make_facts(label=label, confidence=0.39))

    assert list_targets(decision, ActionType.route) == [Team.triage]
    assert list_targets(decision, ActionType.auto_reply) == []


@pytest.mark.parametrize(
    ("text", "label", "flag"),
    [
        ("hm", Intent.chargeback, "chargeback"),
        ("hm", Intent.fraud_report, "fraud_suspected"),
        ("Where is my order? Else I file a CHARGEBACK", Intent.order_status, "chargeback"),
        ("this is fraud", Intent.complaint, "fraud_suspected"),
        ("ＦＲＡＵＤ!", UNKNOWN, "fraud_suspected"),
    ],
)
def test_risk_goes_to_the_risk_team_regardless_of_intent(text: str, label: str, flag: str) -> None:
    decision = decide(make_facts(text, label))

    assert list_targets(decision, ActionType.escalate) == [Team.risk]
    assert f"mw-risk-{flag}" in list_targets(decision, ActionType.tag)
    assert list_targets(decision, ActionType.auto_reply) == []


def test_second_likeliest_risk_counts() -> None:
    given = replace(
        make_facts("hm"), classification=Classification("complaint", 0.5, (("chargeback", 0.35),))
    )

    assert list_targets(decide(given), ActionType.escalate) == [Team.risk]


def test_conversation_at_risk_stays_at_risk() -> None:
    later = apply_decision(make_facts("I opened a chargeback"), event=make_facts("where is my order").event)

    assert later.state is not None and later.state.risk_flags == {"chargeback"}
    assert list_targets(decide(later), ActionType.escalate) == [Team.risk]


@pytest.mark.parametrize("author", ["agent", "automation"])
def test_messages_not_from_customers_are_ignored(author: str) -> None:
    decision = decide(make_facts(author=author))

    assert decision.is_ignored and decision.actions == () and author in decision.reasons[0]


@pytest.mark.parametrize(
    "trigger", ["tag_added:mw-routed", "tag mw-vip", "mw-routed", "tags: new, MW-routed"]
)
def test_echo_of_our_own_tag_is_ignored(trigger: str) -> None:
    assert decide(make_facts(trigger=trigger)).is_ignored


@pytest.mark.parametrize("trigger", ["bmw-club-form", "form:bmw-x5", "customer_message"])
def test_trigger_that_only_contains_our_prefix_is_not_an_echo(trigger: str) -> None:
    assert not decide(make_facts(trigger=trigger)).is_ignored


def test_agent_reply_hands_the_conversation_over() -> None:
    answered = apply_decision(
        apply_decision(make_facts()), event=make_facts("Hi, I am Tom, let me see", author="agent").event
    )
    later = apply_decision(answered, event=make_facts("What is the status of my order?").event)

    assert answered.state is not None and answered.state.pending_flow is not None
    assert later.state is not None and later.state.handed_over and later.state.pending_flow is None
    assert list_targets(decide(later), ActionType.auto_reply) == []
    assert "a person has taken this conversation over" in decide(later).reasons


@pytest.mark.parametrize(
    ("text", "trigger"),
    [("", "ticket_assigned"), ("anything", "tag_added:mw-routed")]
    + [
        (each.fill(**dict.fromkeys(each.fields, "x y")), "reply")
        for each in load_templates().values()
        if each.kind == "reply"
    ],
)
def test_our_own_actions_under_an_agents_name_do_not_hand_over(text: str, trigger: str) -> None:
    echo = apply_decision(make_facts(), event=make_facts(text, author="agent", trigger=trigger).event)

    assert build_next_state(echo, decide(echo)).handed_over is False


@pytest.mark.parametrize("name", load_templates())
def test_our_own_templates_are_never_a_risk(name: str) -> None:
    each = load_templates()[name]
    said = each.fill(**dict.fromkeys(each.fields, "shipped"))

    assert find_risks(said, get_intent_classifier().classify(said)) == frozenset()


# --- automation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("switches", "why"),
    [
        (replace(ON, safe_mode=True), "safe mode is on"),
        (replace(ON, automation_enabled=False), "automation is switched off"),
        (replace(ON, channels=frozenset({"chat"})), "not rolled out on email"),
        (FeatureFlags.build_unreadable(), "could not be read"),
    ],
)
@pytest.mark.proves("RP-X18")
def test_automation_needs_every_switch(switches: FeatureFlags, why: str) -> None:
    decision = decide(make_facts(switches=switches))

    assert list_targets(decision, ActionType.auto_reply) == []
    assert any(why in reason for reason in decision.reasons)


def test_shadow_mode_records_the_reply_and_routes() -> None:
    decision = decide(make_facts(switches=replace(OFF, shadow=True)))

    assert [action.target for action in decision.shadow_actions] == ["ask_order_number"]
    assert list_targets(decision, ActionType.auto_reply) == [] and list_targets(
        decision, ActionType.route
    ) == [Team.orders]
    assert build_next_state(make_facts(), decision).replies == {}


def test_safe_mode_overrides_shadow_mode() -> None:
    assert decide(make_facts(switches=replace(ON, safe_mode=True, shadow=True))).shadow_actions == ()


def test_reveals_an_order_when_number_and_address_match() -> None:
    decision = decide(make_facts("where is order #48213", order=ORDER))

    (reply,) = [action for action in decision.actions if action.type is ActionType.auto_reply]
    assert reply.target == "order_status"
    assert "8213" in reply.text and "48213" not in reply.text and "on its way" in reply.text


@pytest.mark.parametrize(
    ("text", "order", "address"),
    [
        ("where is order #48213", ORDER, "eve@example.com"),
        ("where is order #48213", ORDER, None),
        ("where is order #48214", ORDER, ADA),
        ("where is order #48213", None, ADA),
        ("where is my order", ORDER, ADA),
    ],
)
def test_reveals_nothing_about_an_order_without_a_match(
    text: str, order: Order | None, address: str | None
) -> None:
    decision = decide(make_facts(text, order=order, customer_email=address))

    (reply,) = [action for action in decision.actions if action.type is ActionType.auto_reply]
    assert reply.target.startswith("ask_order_number")
    assert ORDER.status not in reply.text


def test_several_orders_in_one_question_go_to_a_person() -> None:
    decision = decide(make_facts("where are orders #48213 and #48214", order=ORDER))

    assert list_targets(decision, ActionType.auto_reply) == []
    assert "it names several orders, so a person answers" in decision.reasons


def test_bare_number_that_the_shop_does_not_confirm_counts_as_none() -> None:
    decision = decide(make_facts("Where is it? I paid with the voucher from 2024, it was 88123 or so"))

    assert list_targets(decision, ActionType.auto_reply) == ["ask_order_number"]


@pytest.mark.parametrize(
    "text", ["I ordered on 3 November 2026", "I paid 129.00 on 2026-11-03, call 0113 496 0771"]
)
def test_dates_prices_and_phone_numbers_are_never_called_a_wrong_order_number(text: str) -> None:
    first = decide(make_facts(text))
    later = decide(apply_decision(make_facts(), event=make_facts(text).event))

    assert list_targets(first, ActionType.auto_reply) == ["ask_order_number"]
    assert list_targets(later, ActionType.auto_reply) == ["ask_order_number_reminder"]


def test_a_request_for_a_person_under_a_quoted_question_reaches_one() -> None:
    quoted = "On Mon, 2 Feb 2026 at 10:15, Shop <a@shop.example> wrote:\n> Is it order #48213?"
    text = f"I want to speak to a person\n\n{quoted}"
    decision = decide(apply_decision(make_facts(), event=make_facts(text).event, order=ORDER))

    assert list_targets(decision, ActionType.route) == [Team.care]
    assert list_targets(decision, ActionType.auto_reply) == []
    assert "human_request is for a person" in decision.reasons


def test_asks_for_the_number_twice_then_hands_over() -> None:
    first = make_facts()
    second = apply_decision(
        first, event=make_facts("I don't have it", message_id="m-2").event, message_key="m-2"
    )
    third = apply_decision(second, event=make_facts("12345", message_id="m-3").event, message_key="m-3")
    fourth = apply_decision(third, event=make_facts(message_id="m-4").event, message_key="m-4")

    sent = [list_targets(decide(each), ActionType.auto_reply) for each in (first, second, third, fourth)]
    assert sent == [["ask_order_number"], ["ask_order_number_reminder"], ["handed_over"], []]
    assert HANDED_OVER_TAG in list_targets(decide(third), ActionType.tag)
    assert list_targets(decide(third), ActionType.escalate) == [Team.care]
    assert fourth.state is not None and fourth.state.handed_over and fourth.state.pending_flow is None
    assert fourth.state.last_routed_team == Team.care


@pytest.mark.parametrize("asked_at_most", [3, 5])
@pytest.mark.proves("RP-24")
def test_hands_over_when_asking_again_is_too_soon(asked_at_most: int) -> None:
    given = make_facts(settings=RichpanelSettings(order_attempts_max=asked_at_most))
    sent = []
    for minute in range(1, 6):
        sent.append(list_targets(decide(given), ActionType.auto_reply))
        answer = make_facts(f"{minute}" * 7, message_id=f"m-{minute + 1}").event
        given = apply_decision(given, event=answer, now=NOW + timedelta(minutes=minute))

    assert sent == [["ask_order_number"], ["ask_order_number_again"], ["handed_over"], [], []]
    assert given.state is not None and given.state.handed_over


def test_question_after_the_last_reply_is_handed_over() -> None:
    given = make_facts("where is order #48213", order=ORDER, settings=RichpanelSettings(replies_max=1))
    asks = decide(
        apply_decision(given, event=make_facts("and where is my order from May?").event, order=None)
    )

    assert list_targets(asks, ActionType.auto_reply) == []
    assert list_targets(asks, ActionType.escalate) == [Team.care]
    assert HANDED_OVER_TAG in list_targets(asks, ActionType.tag)


def test_bare_number_answers_only_the_pending_question() -> None:
    asked = apply_decision(make_facts(), event=make_facts("it's 48213").event, order=ORDER)

    assert asked.order_numbers == ("48213",) and asked.named_number == "48213"
    assert list_targets(
        decide(replace(asked, classification=Classification(UNKNOWN, 0.2))), ActionType.auto_reply
    ) == ["order_status"]
    assert make_facts("it's 48213").named_number is None


@pytest.mark.proves("RP-23")
@pytest.mark.proves("RP-X9")
def test_expired_question_is_forgotten_and_holds_no_number() -> None:
    asked = apply_decision(make_facts("where is #48213"))
    assert asked.state is not None and asked.state.pending_flow is not None
    assert "8213" not in asked.state.model_dump_json()

    later = replace(asked, now=asked.state.pending_flow.expires_at)
    assert timedelta(days=7) <= later.now - NOW <= timedelta(days=30)
    assert not later.is_awaiting_number and later.order_number_attempts == 0
    assert build_next_state(replace(later, flags=OFF), decide(replace(later, flags=OFF))).pending_flow is None


def test_out_of_hours_handover_names_the_opening_time() -> None:
    flow = PendingFlow(
        type="need_order_number", requested_at=NOW, attempts=2, expires_at=NOW + timedelta(days=60)
    )
    state = ConversationState(conversation_id="c-1", updated_at=NOW, expires_at=NOW, pending_flow=flow)
    saturday = replace(make_facts(state=state, hours=WorkingHours()), now=NOW + timedelta(days=3))

    (reply,) = [each for each in decide(saturday).actions if each.type is ActionType.auto_reply]
    assert reply.target == "handed_over_closed" and "Monday 09:00" in reply.text


@pytest.mark.proves("RP-24")
def test_same_reply_is_not_repeated_soon() -> None:
    answered = make_facts("where is order #48213", order=ORDER)
    again = apply_decision(answered, now=NOW + timedelta(minutes=5))

    assert list_targets(decide(answered), ActionType.auto_reply) == ["order_status"]
    assert list_targets(decide(again), ActionType.auto_reply) == []
    assert any("too soon to send it again" in reason for reason in decide(again).reasons)


@pytest.mark.proves("RP-24")
def test_conversation_gets_a_limited_number_of_replies() -> None:
    settings = RichpanelSettings(replies_max=2, reply_pause_s=60)
    given, sent = make_facts("where is order #48213", order=ORDER, settings=settings), 0
    for day in range(1, 6):
        sent += len(list_targets(decide(given), ActionType.auto_reply))
        given = apply_decision(given, now=NOW + timedelta(days=day))

    assert sent == 2


@pytest.mark.proves("RP-42")
def test_older_event_is_only_routed() -> None:
    newer = make_facts(created_at=NOW)
    late = apply_decision(
        newer, event=make_facts(created_at=NOW - timedelta(seconds=1), message_id="m-0").event
    )

    decision = decide(late)
    assert list_targets(decision, ActionType.route) == [Team.orders] and decision.mode is Mode.route_only
    assert list_targets(decision, ActionType.auto_reply) == []
    assert build_next_state(late, decision).last_event_created_at == NOW


@pytest.mark.parametrize("intent", [Intent.human_request, Intent.complaint])
def test_customer_who_wants_a_person_gets_no_automatic_reply(intent: Intent) -> None:
    assert list_targets(decide(make_facts("hm", intent)), ActionType.auto_reply) == []


@pytest.mark.proves("RP-46")
def test_agent_gets_an_internal_suggestion() -> None:
    decision = decide(make_facts("do you ship to Norway", Intent.shipping_policy))

    (note,) = [action for action in decision.actions if action.type is ActionType.suggest]
    assert load_templates()[note.target].kind == "note" and note.text
    assert list_targets(decision, ActionType.auto_reply) == []


@pytest.mark.proves("RP-1")
def test_each_action_has_a_stable_unique_key() -> None:
    given = make_facts("I opened a chargeback, this is fraud")
    keys = [action.key for action in decide(given).actions]

    assert len(set(keys)) == len(keys) == 4
    assert keys == [action.key for action in decide(given).actions]
    assert {parse_key(key).components[-1] for key in keys} == {"m-1"}


# --- the state ----------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-3")
@pytest.mark.proves("RP-21")
def test_state_holds_the_decision_and_nothing_personal() -> None:
    given = make_facts(f"where is order #48213? {ADA}", order=ORDER, created_at=NOW)
    state = build_next_state(given, decide(given))

    assert (state.last_intent, state.last_routed_team) == ("order_status", "orders")
    assert (state.last_processed_message_id, state.last_processed_at) == ("m-1", NOW)
    assert state.last_auto_reply is not None and state.last_auto_reply.type == "order_status"
    for private in ("48213", "ada", "example", "where"):
        assert private not in state.model_dump_json()


def test_customer_link_outlives_everything_found_by_it() -> None:
    given = make_facts(settings=RichpanelSettings(state_days=1, audit_days=200))
    link = build_customer_link(given)

    assert link is not None
    item = link.entity.to_item()
    assert (item["conversation_id"], item["customer_hash"]) == ("c-1", hash_email(" ADA@example.com"))
    assert "ada" not in str(item).lower() and item["expires_at"] == (NOW + timedelta(days=201)).timestamp()
    assert RANGES["idempotency_days"][0] > replay_archive.LIFETIME_DAYS
    assert (
        build_customer_link(make_facts(customer_email=" ")) is None
        and build_customer_link(make_facts(customer_email=None)) is None
    )


def test_plan_without_actions_leaves_the_team_unchanged() -> None:
    routed = apply_decision(make_facts())
    assert routed.state is not None and routed.state.last_routed_team == Team.orders
    kept_to = replace(decide(make_facts("do you ship to Norway", Intent.shipping_policy)), actions=())

    assert build_next_state(routed, kept_to).last_routed_team == Team.orders


def test_expired_switches_mean_safe_mode() -> None:
    item = build_switches(
        safe_mode=False, automation_enabled=True, channels=frozenset({"email"}), by="ops", now=NOW
    )

    assert FeatureFlags.from_item(item, NOW).get_block_reason("email") is None
    assert FeatureFlags.from_item(item, item.expires_at).safe_mode


# --- order numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("order #48213", "48213"),
        ("Order no. 90-1182 please", "901182"),
        ("my order number is 553901, look", "553901"),
        ("reference RP-22017.", "RP22017"),
        ("order １２３４５", "12345"),
        ("I paid 12345 dollars", None),
        ("order 48213 or order 48214", "48213 48214"),
        ("order 48213 and again #48213", "48213"),
        ("I ordered 2 shirts", None),
        ("call me, my number is 555-123-4567", None),
        ("call me, my number is 5551234567", None),
        ("order 1-555-123-4567", None),
        ("number 4111111111111111 is my card", None),
        ("order 4111-1111-1111-1111", None),
        ("ref 2026-02-04", None),
        ("my order number is 5551234567", "5551234567"),
        ("order #4111111111111112", "4111111111111112"),
    ],
)
def test_finds_only_labelled_order_numbers_and_no_phone_card_or_date(text: str, number: str | None) -> None:
    named = [normalise_number(each.text) for each in find_order_candidates(text) if each.is_named]

    assert named == ([] if number is None else number.split())


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("48213", "48213"),
        ("it is 48213.", "48213"),
        ("at 12:30", None),
        ("1,000 or 2026-02-04", None),
        ("4111111111111111", None),
        ("5551234567", None),
        ("555-123-4567", None),
        ("it is 48213, call 5551234567", "48213"),
    ],
)
def test_finds_a_bare_number_where_one_is_expected(text: str, number: str | None) -> None:
    assert [each.text for each in find_answer_numbers(text)] == ([] if number is None else [number])


def test_requested_order_number_keeps_the_team() -> None:
    waiting = apply_decision(make_facts()).state
    answered = decide(make_facts("It is #W2378156.", Intent.product_question, state=waiting))
    assert answered.actions[0].target == "orders"
    assert "stays with orders" in answered.reasons[0]
    at_risk = decide(make_facts("It is #W2378156, and this is fraud", Intent.product_question, state=waiting))
    assert at_risk.actions[0].target == "risk"


# --- addresses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ordered", "wrote"),
    [
        ("ada@strasse.example", "ada@straße.example"),
        ("ada@example.com", "ａｄａ@example.com"),
        ("ada@example.com", "ada@ｅxample.com"),
        ("ada@example.com", "ada@example.com.evil.example"),
        ("ſam@example.com", "sam@example.com"),
        ("kim@example.com", "\u212aim@example.com"),
        ("", ""),
        (" ", " "),
        ("", " "),
        ("none", "none"),
        ("@example.com", "@example.com"),
    ],
)
def test_lookalike_address_does_not_verify_an_order(ordered: str, wrote: str) -> None:
    order = replace(ORDER, email_sha256=hash_email(ordered))

    assert not is_verified(order, "48213", wrote)


@pytest.mark.parametrize(
    ("ordered", "wrote"),
    [
        ("Ada@Example.COM", " ada@example.com"),
        ("ada@STRAßE.example", "ada@xn--strae-oqa.example"),
        ("ada@mu\u0308nchen.example", "ada@m\u00fcnchen.example"),
    ],
)
def test_address_verifies_in_every_spelling(ordered: str, wrote: str) -> None:
    assert is_verified(replace(ORDER, email_sha256=hash_email(ordered)), "48213", wrote)
