"""The plan of an event: the first attempt's decision, stored and followed by every later attempt.

A changed classifier or state must not route a half-done event to two teams, so a later attempt adds nothing
to the plan. It withdraws an automated action that is no longer allowed, because an operator changed a flag,
or whose text is no longer true (the order is gone, people are back). Routing actions are never withdrawn. A
plan holds types, keys and template names, and no text of a customer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from richpanel.domain.risks import Risk
from richpanel.domain.routing import Routing, Team
from richpanel.domain.rules import Decision, HelpDeskAction
from richpanel.model.entities import ActionType, Mode

ROUTING_ACTIONS: Final = frozenset({ActionType.route, ActionType.escalate, ActionType.tag})


@dataclass(frozen=True)
class Plan:
    """The decision to follow, and the actions that were withdrawn from it."""

    decision: Decision
    withdrawn: tuple[HelpDeskAction, ...] = ()


def encode_plan(decision: Decision) -> str:
    """Encode a decision as JSON, for the record."""
    return json.dumps(
        {
            "mode": decision.mode,
            "actions": [_encode_action(each) for each in decision.actions],
            "would": [_encode_action(each) for each in decision.shadow_actions],
            "routing": decision.routing and _encode_routing(decision.routing),
        },
        separators=(",", ":"),
    )


def resume_plan(text: str, fresh: Decision) -> Plan:
    """Decode a stored plan and withdraw its automated actions that `fresh`, the decision of this attempt,
    does not have. The remaining actions take their values from `fresh`.
    """
    stored = json.loads(text)
    fresh_actions = {each.key: each for each in (*fresh.actions, *fresh.shadow_actions)}
    allowed = {each.key for each in fresh.actions}
    actions: list[HelpDeskAction] = []
    withdrawn: list[HelpDeskAction] = []
    for entry in stored["actions"]:
        action = _decode_action(entry, fresh_actions)
        is_allowed = action.type in ROUTING_ACTIONS or (action.key in allowed and action.has_all_values)
        (actions if is_allowed else withdrawn).append(action)
    would = tuple(_decode_action(entry, fresh_actions) for entry in stored["would"])
    decision = replace(
        fresh,
        mode=Mode(stored["mode"]),
        actions=tuple(actions),
        shadow_actions=would,
        routing=_decode_routing(stored["routing"]) if "routing" in stored else fresh.routing,
    )
    return Plan(decision, tuple(withdrawn))


def _encode_routing(routing: Routing) -> list[Any]:
    return [routing.team, sorted(routing.risks), routing.reason]


def _decode_routing(entry: Any) -> Routing | None:
    """Decode the routing. None if the first attempt had nothing to route: no later attempt routes either."""
    if entry is None:
        return None
    team, risks, reason = entry
    return Routing(Team(team), frozenset(map(Risk, risks)), reason)


def _encode_action(action: HelpDeskAction) -> list[str]:
    """Encode type, key and target. Values are not stored: they may be personal data."""
    return [action.type, action.key, action.target]


def _decode_action(entry: Any, fresh_actions: dict[str, HelpDeskAction]) -> HelpDeskAction:
    """Decode an action, with the values of the same action in `fresh_actions` if there is one."""
    type_, key, target = entry
    same = fresh_actions.get(key)
    return (
        same if same is not None and same.target == target else HelpDeskAction(ActionType(type_), key, target)
    )
