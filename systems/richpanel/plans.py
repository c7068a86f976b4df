"""The plan of an event: what was decided at the first attempt, kept with its record and followed by every later one.

A classifier that was changed, or a state that moved on, must not route a half-done event to two teams. So a later attempt
adds nothing to the plan. What was to happen by itself and may no longer is withdrawn from it: because a switch was turned,
or because what was to be said holds no more (the order is gone, people are back). What routes is not.

A plan holds types, keys and names of templates, and no word of a customer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from richpanel.model import ActionType, Mode
from richpanel.routing import Risk, Routing, Team
from richpanel.rules import Action, Decision

ROUTING: Final = frozenset({ActionType.route, ActionType.escalate, ActionType.tag})


@dataclass(frozen=True)
class Plan:
    """A decision that is kept to, and what of it is withdrawn."""

    decision: Decision
    withdrawn: tuple[Action, ...] = ()


def plan_text(decision: Decision) -> str:
    return json.dumps(
        {
            "mode": decision.mode,
            "actions": [_entry(each) for each in decision.actions],
            "would": [_entry(each) for each in decision.would],
            "routing": decision.routing and _routing_entry(decision.routing),
        },
        separators=(",", ":"),
    )


def kept_to(text: str, fresh: Decision) -> Plan:
    """The plan, with the values that `fresh`, the same decision made anew, has for its actions."""
    kept = json.loads(text)
    anew = {each.key: each for each in (*fresh.actions, *fresh.would)}
    allowed = {each.key for each in fresh.actions}
    actions: list[Action] = []
    withdrawn: list[Action] = []
    for entry in kept["actions"]:
        action = _planned(entry, anew)
        goes_on = action.type in ROUTING or (action.key in allowed and action.can_be_said)
        (actions if goes_on else withdrawn).append(action)
    would = tuple(_planned(entry, anew) for entry in kept["would"])
    decision = replace(
        fresh,
        mode=Mode(kept["mode"]),
        actions=tuple(actions),
        would=would,
        routing=_routing(kept["routing"]) if "routing" in kept else fresh.routing,
    )
    return Plan(decision, tuple(withdrawn))


def _routing_entry(routing: Routing) -> list[Any]:
    return [routing.team, sorted(routing.risks), routing.reason]


def _routing(entry: Any) -> Routing | None:
    """Where the first attempt had nothing to route, no later one does."""
    if entry is None:
        return None
    team, risks, reason = entry
    return Routing(Team(team), frozenset(map(Risk, risks)), reason)


def _entry(action: Action) -> list[str]:
    return [action.type, action.key, action.target]


def _planned(entry: Any, anew: dict[str, Action]) -> Action:
    type_, key, target = entry
    same = anew.get(key)
    return same if same is not None and same.target == target else Action(ActionType(type_), key, target)
