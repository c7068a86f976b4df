"""Review of an edition's rules: an administrator confirms, edits or rejects each, and the log records it.

Every decision names the version of the rule that its administrator saw. If the rule has changed since, the
decision changes nothing and raises `RuleChanged`. A decision waits for an ingestion of the same document that
is about to become ready, so that the new edition repeats either the old decision or the new one, never half
of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, ValidationError

from holdfast import Stores
from holdfast.core.errors import ConditionFailed, Conflict, HoldfastError, InvalidRequest, NotFound
from tripcortex.domain.policy_rules.rules import Effect, PolicyRule, RuleScope
from tripcortex.model.policies import patterns
from tripcortex.model.policies import rules_patterns as rule_patterns
from tripcortex.model.policies.rules import MAX_REASON_CHARS, RuleAction, RuleStatus, StoredRule
from tripcortex.policies.uploads import get_now, load_policy

# A lower price is more likely that of a seat or a bag than of a flight.
MIN_FARE_USD: Final = 40
# What a rule is: its place in the document and the words that it was read from are not edited.
FIXED_MEMBERS: Final = frozenset({"rule_id", "quote", "page", "section", "policy_id", "file_name"})
# Without one of these members the rule would not limit anything.
REQUIRED_MEMBERS: Final[Mapping[Effect, tuple[str, ...]]] = {
    Effect.max_cabin: ("cabin",),
    Effect.cabin_outcome: ("cabin",),
    Effect.fare_cap: ("amount_usd",),
    Effect.overage: ("over_percent", "over_usd"),
    Effect.preferred_carriers: ("carriers",),
    Effect.prohibited_carriers: ("carriers",),
    Effect.prohibited_destinations: ("destinations",),
}


class RuleChanged(Conflict, label="RuleChanged"):
    """Another administrator changed the rule after this one had read it."""

    http_status = 409

    def __init__(self, current: StoredRule, seen: int) -> None:
        by = f" by {current.decided_by}" if current.decided_by else ""
        super().__init__(
            f"The rule {current.rule_id} was changed after you read it: you saw version {seen}, and it is "
            f"now version {current.version}, {current.status.value}{by}. This request changed nothing. Read "
            "the rule, then decide again."
        )
        self.current = current


@dataclass(frozen=True)
class SeenRule:
    """A rule of an edition, and the version that the administrator saw."""

    policy_id: UUID
    rule_id: str
    version: int


@dataclass(frozen=True)
class Decider:
    """The administrator who decides, and the reason for the log."""

    name: str
    reason: str | None = None


@dataclass(frozen=True)
class BulkResult:
    """The outcome for one rule of several: the rule after the decision, or the error that refused it."""

    rule_id: str
    rule: StoredRule | None = None
    error: HoldfastError | None = None


async def list_rules(
    stores: Stores, policy_id: UUID, status: RuleStatus | None = None
) -> tuple[StoredRule, ...]:
    """Return the rules of an edition in the document's order. Raise `NotFound` for an unknown policy."""
    await load_policy(stores, policy_id)
    return await stores.run(rule_patterns.stored_rules(policy_id, status))


async def count_rules(stores: Stores, policy_id: UUID) -> dict[str, int]:
    """Return how many rules of an edition are proposed, confirmed and rejected."""
    found = await stores.run(rule_patterns.stored_rules(policy_id))
    return {status.value: sum(each.status is status for each in found) for status in RuleStatus}


async def load_rule(stores: Stores, policy_id: UUID, rule_id: str) -> StoredRule:
    """Return the rule. Raise `NotFound` if the edition does not have it."""
    found = await stores.run(rule_patterns.stored_rule(policy_id, rule_id))
    if found is None:
        raise NotFound(f"Unknown rule {rule_id!r:.60} of policy {policy_id}. List the policy's rules.")
    return found


async def confirm(stores: Stores, seen: SeenRule, by: Decider) -> StoredRule:
    """Confirm a rule as it is: it decides from now on if its edition serves.

    Raise `RuleChanged` for another version, `InvalidRequest` for a statement that was not understood.
    """
    rule = await load_rule(stores, seen.policy_id, seen.rule_id)
    if rule.version == seen.version:
        _require_meaning(PolicyRule.model_validate(rule.rule))
    return await _decide(stores, seen, RuleAction.confirm, by)


async def edit(stores: Stores, seen: SeenRule, changes: Mapping[str, Any], by: Decider) -> StoredRule:
    """Replace members of a rule and confirm the result; the quote, page and section remain.

    Raise `RuleChanged` for another version, `InvalidRequest` for a change that is not a rule.
    """
    rule = await load_rule(stores, seen.policy_id, seen.rule_id)
    if rule.version != seen.version:
        raise RuleChanged(rule, seen.version)
    edited = apply_changes(rule.rule, changes)
    return await _decide(stores, seen, RuleAction.edit, by, decided=edited.model_dump(mode="json"))


async def reject(stores: Stores, seen: SeenRule, by: Decider) -> StoredRule:
    """Reject a rule: it does not decide. Raise `RuleChanged` for another version."""
    return await _decide(stores, seen, RuleAction.reject, by)


async def confirm_several(stores: Stores, seen: Sequence[SeenRule], by: Decider) -> list[BulkResult]:
    """Confirm each rule on its own, and return the result of each in the same order."""
    return [await _try_confirm(stores, each, by) for each in seen]


async def confirm_complete(stores: Stores, policy_id: UUID, by: Decider) -> list[BulkResult]:
    """Confirm every undecided rule that is complete, understood and plain; return their results."""
    undecided = await list_rules(stores, policy_id, RuleStatus.proposed)
    seen = [
        SeenRule(policy_id, each.rule_id, each.version)
        for each in undecided
        if each.is_complete and is_plain(PolicyRule.model_validate(each.rule))
    ]
    return await confirm_several(stores, seen, by)


def apply_changes(rule: Mapping[str, Any], changes: Mapping[str, Any]) -> PolicyRule:
    """Return the rule with the changed members, validated; None restores a member's default.

    Raise `InvalidRequest` for a member that a rule does not have or that is not edited, and for a rule that
    would not limit anything.
    """
    if fixed := sorted(FIXED_MEMBERS & {name for name in changes if changes[name] != rule.get(name)}):
        raise InvalidRequest(
            f"Invalid change of {', '.join(fixed)}: these members say where the rule was read and remain. "
            "Leave them out."
        )
    if not changes:
        raise InvalidRequest("The change is empty: name at least one member, or confirm the rule as it is.")
    values = {name: value for name, value in {**rule, **changes}.items() if value is not None}
    try:
        edited = PolicyRule.model_validate(values)
    except ValidationError as error:
        raise InvalidRequest(f"Invalid rule: {describe_errors(error)}. Change these members.") from error
    if unknown := _list_unknown(edited):
        expected = ", ".join(sorted(set(PolicyRule.model_fields) - FIXED_MEMBERS))
        raise InvalidRequest(f"Invalid rule: unknown member {', '.join(unknown)}. A rule has: {expected}.")
    _require_meaning(edited)
    return edited


def has_meaning(rule: PolicyRule) -> bool:
    """Return whether the rule limits something: it was understood and has the values of its effect."""
    required = REQUIRED_MEMBERS.get(rule.effect, ())
    has_values = not required or any(getattr(rule, name) for name in required)
    return rule.effect is not Effect.unknown and has_values


def is_plain(rule: PolicyRule) -> bool:
    """Return whether the rule may be confirmed without a person's look at it.

    A rule about every trip, and a price that is hardly one of a flight, may have been read from a sentence
    about something else.
    """
    is_wide = rule.effect is Effect.trip_outcome and rule.scope == RuleScope()
    is_small = (
        rule.amount_usd is not None and rule.effect is Effect.fare_cap and rule.amount_usd < MIN_FARE_USD
    )
    return has_meaning(rule) and not is_wide and not is_small


def describe_errors(error: ValidationError) -> str:
    """Return the invalid members with what was expected, in one line and without the values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)


async def _try_confirm(stores: Stores, seen: SeenRule, by: Decider) -> BulkResult:
    """Confirm the rule; return an error that the caller can act on instead of raising it."""
    try:
        return BulkResult(seen.rule_id, rule=await confirm(stores, seen, by))
    except (RuleChanged, NotFound, InvalidRequest) as error:
        return BulkResult(seen.rule_id, error=error)


async def _decide(
    stores: Stores,
    seen: SeenRule,
    action: RuleAction,
    by: Decider,
    *,
    decided: dict[str, Any] | None = None,
) -> StoredRule:
    """Write the decision and its log entry under the document's lock. Raise `RuleChanged` or `NotFound`."""
    policy, reason = await load_policy(stores, seen.policy_id), _check_reason(by.reason)
    change = rule_patterns.decide_rule(
        seen.policy_id,
        seen.rule_id,
        seen.version,
        action,
        by.name,
        get_now(stores),
        decided=decided,
        reason=reason,
    )
    try:
        async with stores.sql_transaction() as work:
            await work.run(patterns.locked_editions(policy.document_id))
            (rule,) = await work.run(change)
    except ConditionFailed as error:
        raise RuleChanged(await load_rule(stores, seen.policy_id, seen.rule_id), seen.version) from error
    return rule


def _check_reason(reason: str | None) -> str | None:
    """Return the stripped reason, None if it is empty. Raise `InvalidRequest` if it is too long."""
    text = (reason or "").strip()
    if len(text) > MAX_REASON_CHARS:
        raise InvalidRequest(
            f"Invalid reason: expected at most {MAX_REASON_CHARS} characters, got {len(text)}. Shorten it."
        )
    return text or None


def _require_meaning(rule: PolicyRule) -> None:
    """Raise `InvalidRequest` for a rule that would not limit anything."""
    if has_meaning(rule):
        return
    if rule.effect is Effect.unknown:
        wrong = "it was not understood (for an approval of every trip in its scope: effect trip_outcome)"
    else:
        wrong = f"{rule.effect.value} needs {' or '.join(REQUIRED_MEMBERS[rule.effect])}"
    raise InvalidRequest(
        f"The rule does not say what it limits, because {wrong}. Edit it so that it does, or reject it."
    )


def _list_unknown(document: BaseModel, prefix: str = "") -> list[str]:
    """Return the members that the document and those inside it do not declare, by their paths."""
    found = [f"{prefix}{name}" for name in document.model_extra or {}]
    for name in type(document).model_fields:
        value = getattr(document, name)
        parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            if isinstance(part, BaseModel):
                found += _list_unknown(part, f"{prefix}{name}.")
    return list(dict.fromkeys(found))
