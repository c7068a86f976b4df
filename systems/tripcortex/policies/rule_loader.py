"""The rules that decide about trips: the confirmed ones of serving editions. Passages never decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from holdfast import Stores
from tripcortex.domain.policy_rules.rules import PolicyRule
from tripcortex.model.policies import rules_patterns as rule_patterns
from tripcortex.model.policies.rules import RuleStatus, ServingRule
from tripcortex.policies.rule_proposals import convert_json

UNDECIDED_OR_CONFIRMED = (RuleStatus.confirmed, RuleStatus.proposed)


@dataclass(frozen=True)
class ServingRules:
    """The rules of the serving editions: those that decide, and those that wait for an administrator."""

    confirmed: tuple[PolicyRule, ...]
    proposed: tuple[PolicyRule, ...] = ()


async def load_confirmed_rules(
    stores: Stores, policy_ids: Sequence[UUID] | None = None
) -> tuple[PolicyRule, ...]:
    """Return the confirmed rules of every document in service, newest first, or of exactly these editions.

    The JSON of an edition whose rules were never stored counts as confirmed.
    """
    stored = await stores.run(rule_patterns.serving_rules_in(policy_ids=policy_ids))
    return (*_parse(stored), *await _convert_unstored(stores, policy_ids))


async def load_serving_rules(stores: Stores) -> ServingRules:
    """Return the confirmed and the proposed rules of every document in service, newest first."""
    stored = await stores.run(rule_patterns.serving_rules_in(UNDECIDED_OR_CONFIRMED))
    confirmed = [each for each in stored if each.status is RuleStatus.confirmed]
    proposed = [each for each in stored if each.status is RuleStatus.proposed]
    return ServingRules((*_parse(confirmed), *await _convert_unstored(stores)), _parse(proposed))


async def load_rules_for_judgement(stores: Stores) -> tuple[PolicyRule, ...]:
    """Return the rules that a booking is judged by: the confirmed ones, and the proposals marked as pending.

    A proposal decides nothing, but as long as it waits for an administrator its subject is not settled.
    """
    rules = await load_serving_rules(stores)
    return (*rules.confirmed, *mark_pending(rules.proposed))


def mark_pending(rules: Iterable[PolicyRule]) -> tuple[PolicyRule, ...]:
    """Return the rules as proposals that wait for an administrator."""
    return tuple(each.model_copy(update={"is_pending": True}) for each in rules)


async def _convert_unstored(
    stores: Stores, policy_ids: Sequence[UUID] | None = None
) -> tuple[PolicyRule, ...]:
    """Return the rules of the JSON of editions that an older version ingested."""
    found = await stores.run(rule_patterns.unstored_rules(policy_ids))
    return tuple(rule for each in found for rule in convert_json(each.id, each.file_name, each.rules))


def _parse(stored: Iterable[ServingRule]) -> tuple[PolicyRule, ...]:
    """Return stored rules as rules that cite their policy."""
    return tuple(
        PolicyRule.model_validate(
            {
                **each.rule,
                "rule_id": each.rule_id,
                "policy_id": str(each.policy_id),
                "file_name": each.file_name,
            }
        )
        for each in stored
    )
