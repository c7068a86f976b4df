"""Proposals of an edition's rules: read when it becomes ready, stored in the same transaction.

    chunks → `propose_rules` → proposed, or with the decision of an earlier edition ┐
    JSON   → `convert_policy` → confirmed by the person who uploaded it             ┴→ policy_rules

A rule's id is a digest of its quote, effect, values and scope. So a decision about an earlier edition is
repeated only for a rule that has not changed in any of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from holdfast import Stores
from holdfast.core.errors import InvalidRequest
from holdfast.model.sql import SqlChange
from tripcortex.domain.policy_rules.conversion import convert_policy
from tripcortex.domain.policy_rules.proposals import propose_rules
from tripcortex.domain.policy_rules.rules import PolicyRule
from tripcortex.domain.policy_rules.travel_policy import TravelPolicy
from tripcortex.model.policies import patterns
from tripcortex.model.policies import rules_patterns as rule_patterns
from tripcortex.model.policies.rules import (
    MAX_SECTION_CHARS,
    DecidedRule,
    NewRule,
    RuleAction,
    RuleChunk,
    RuleOrigin,
    RuleStatus,
)
from tripcortex.model.policies.schema import Policy, PolicyStatus
from tripcortex.policies.uploads import get_now, load_policy

log = logging.getLogger(__name__)

# The time between two signs that a long document is still being read; see `ingestion.STALE_S`.
HEARTBEAT_S: float = 60.0
# Recorded if the uploader of a JSON is unknown.
UNKNOWN_UPLOADER: Final = "unknown"
# The members that hold what a rule limits.
LIMIT_MEMBERS: Final = ("cabin", "amount_usd", "days", "percent", "carriers", "destinations")


@dataclass(frozen=True)
class ChunkEntity:
    """A stored chunk as the extraction of rules reads it (`proposals.PolicyEntity`)."""

    text: str
    page: int | None
    section_title: str | None
    sections: tuple[str, ...]
    content_type: str
    subtype: str
    reading_order: int
    entity_id: str


@dataclass(frozen=True)
class Proposals:
    """The rules of one edition before they are stored."""

    from_document: tuple[PolicyRule, ...] = ()
    from_json: tuple[PolicyRule, ...] = ()


async def read_proposals(stores: Stores, policy: Policy) -> Proposals:
    """Return the rules that the edition's chunks and JSON state. Raise `InvalidRequest` for an invalid JSON.

    If the extraction fails, the document has no proposals, which the log reports: nothing is permitted then.
    """
    from_json = convert_json(policy.id, policy.file_name, policy.rules)
    chunks = await stores.run(rule_patterns.rule_chunks(policy.id))
    found = await _propose_rules(stores, policy, [part for each in chunks for part in _build_entities(each)])
    from_document = _mark_source(found, policy.id, policy.file_name)
    return Proposals(from_document, _quote_document(from_json, from_document))


async def _propose_rules(
    stores: Stores, policy: Policy, entities: Sequence[ChunkEntity]
) -> tuple[PolicyRule, ...]:
    """Propose the rules in a thread, and keep the policy from being taken for abandoned meanwhile.

    If the extraction fails, log it and return none. Raise `ConditionFailed` if another worker took over.
    """
    reading = asyncio.create_task(asyncio.to_thread(propose_rules, entities))
    while not (await asyncio.wait((reading,), timeout=HEARTBEAT_S))[0]:
        if policy.status is PolicyStatus.processing:
            now = get_now(stores)
            await stores.run(patterns.note_progress(policy.id, policy.version, len(entities), None, now))
    try:
        return reading.result()
    except Exception as error:
        # The error's own text is left out of the log, because it may quote the document.
        log.error(
            "The rules of policy %s could not be extracted (%s), so none is proposed. Report this as a bug; "
            "then run `holdfast tripcortex policies rules propose %s` with a fixed version.",
            policy.id,
            type(error).__name__,
            policy.id,
        )
        return ()


def convert_json(policy_id: UUID, file_name: str, rules: Mapping[str, Any] | None) -> tuple[PolicyRule, ...]:
    """Return the machine-readable rules of a policy as confirmed rules; none without a JSON."""
    if rules is None:
        return ()
    parsed = TravelPolicy.parse(rules, policy_id=str(policy_id), file_name=file_name)
    return _mark_source(convert_policy(parsed), policy_id, file_name)


def build_proposal_writes(
    policy: Policy, proposals: Proposals, earlier: Iterable[DecidedRule], now: datetime
) -> tuple[SqlChange, ...]:
    """Return the writes that store the rules with the decisions of earlier editions (PR8).

    They belong into one transaction under the document's lock. Rules that the edition already has keep their
    decision; those that are still undecided are replaced.
    """
    decisions = {each.rule_id: each for each in earlier}
    new = [*_confirm_json(proposals.from_json, policy, now), *_carry(proposals.from_document, decisions)]
    return (
        rule_patterns.delete_proposals(policy.id),
        rule_patterns.insert_rules(policy.id, _number(new), now),
        rule_patterns.note_rules_stored(policy.id, now),
    )


async def propose_again(stores: Stores, policy_id: UUID) -> Policy:
    """Read the rules of an ingested edition again, for one that an older version ingested; return it.

    Decisions remain. Raise `InvalidRequest` if it is not ready, or its chunks were deleted.
    """
    policy = await load_policy(stores, policy_id)
    if policy.status is not PolicyStatus.ready or policy.retired_at is not None:
        raise InvalidRequest(
            f"Policy {policy_id} is not ready, or its chunks were deleted. Upload its file as a new edition."
        )
    proposals = await read_proposals(stores, policy)
    async with stores.sql_transaction() as work:
        await work.run(patterns.locked_editions(policy.document_id))
        earlier = await work.run(rule_patterns.earlier_decisions(policy.document_id, policy.edition))
        for write in build_proposal_writes(policy, proposals, earlier, get_now(stores)):
            await work.run(write)
    return policy


def _quote_document(
    from_json: Iterable[PolicyRule], from_document: Sequence[PolicyRule]
) -> tuple[PolicyRule, ...]:
    """Return the rules of the JSON with the words and place of the sentence that states the same limit.

    Employees then get the document's own words with their page. What the rule means does not change.
    """
    complete = [each for each in from_document if each.is_complete]
    return tuple(_quote_statement(each, complete) for each in from_json)


def _quote_statement(rule: PolicyRule, statements: Iterable[PolicyRule]) -> PolicyRule:
    """Return the rule with the quote of the statement of the same limit; unchanged if it is not clear."""
    same = [each for each in statements if _is_same_limit(each, rule)]
    exact = [each for each in same if each.scope == rule.scope] or same
    if len({each.quote for each in exact}) != 1:
        return rule
    return rule.model_copy(update={name: getattr(exact[0], name) for name in ("quote", "page", "section")})


def _is_same_limit(statement: PolicyRule, rule: PolicyRule) -> bool:
    """Return whether the statement limits the same at the same values, whatever its scope.

    It may leave a value of the rule out.
    """
    stated = [(getattr(statement, name), getattr(rule, name)) for name in LIMIT_MEMBERS]
    given = [(said, meant) for said, meant in stated if said not in (None, ())]
    return statement.effect is rule.effect and bool(given) and all(said == meant for said, meant in given)


def _confirm_json(rules: Iterable[PolicyRule], policy: Policy, now: datetime) -> list[NewRule]:
    """Return the rules of the JSON, confirmed by the person who uploaded it."""
    decision = {
        "status": RuleStatus.confirmed,
        "decided_by": policy.uploaded_by or UNKNOWN_UPLOADER,
        "decided_at": now,
        "action": RuleAction.upload,
    }
    return [_build_rule(each, RuleOrigin.json, **decision) for each in rules]


def _carry(rules: Iterable[PolicyRule], decisions: Mapping[str, DecidedRule]) -> list[NewRule]:
    """Return the rules of the document, each with its earlier decision or proposed."""
    return [_repeat_decision(each, decisions.get(each.rule_id)) for each in rules]


def _repeat_decision(rule: PolicyRule, earlier: DecidedRule | None) -> NewRule:
    """Return the rule with the earlier decision; an edited rule gets its place in this edition."""
    if earlier is None:
        return _build_rule(rule, RuleOrigin.document)
    place = {name: getattr(rule, name) for name in ("page", "section", "policy_id", "file_name")}
    return _build_rule(
        rule,
        RuleOrigin.document,
        status=earlier.status,
        decided=None if earlier.decided is None else earlier.decided | place,
        decided_by=earlier.decided_by,
        decided_at=earlier.decided_at,
        action=RuleAction.carry,
        reason=f"Decided for edition {earlier.edition}.",
    )


def _build_rule(rule: PolicyRule, origin: RuleOrigin, **decision: Any) -> NewRule:
    """Return a rule as a row to insert; its position is set later."""
    return NewRule(
        rule_id=rule.rule_id,
        position=0,
        origin=origin,
        proposed=rule.model_dump(mode="json"),
        quote=rule.quote or None,
        page=rule.page,
        section=None if rule.section is None else rule.section[:MAX_SECTION_CHARS],
        is_complete=rule.is_complete,
        **decision,
    )


def _number(rules: Sequence[NewRule]) -> list[NewRule]:
    """Return each rule once, in order from position 1; a rule of the JSON wins over the same proposal."""
    once = {each.rule_id: each for each in reversed(rules)}
    ordered = [each for each in rules if once[each.rule_id] is each]
    return [each.model_copy(update={"position": place}) for place, each in enumerate(ordered, 1)]


def _mark_source(rules: Iterable[PolicyRule], policy_id: UUID, file_name: str) -> tuple[PolicyRule, ...]:
    """Return the rules with their ids, and the policy and file that citations name."""
    source = {"policy_id": str(policy_id), "file_name": file_name}
    return tuple((each if each.rule_id else each.with_id()).model_copy(update=source) for each in rules)


def _build_entities(chunk: RuleChunk) -> Iterator[ChunkEntity]:
    """Yield the entities that the chunk was made of; their headings come from the metadata.

    A rule is read from the paragraph, list or table that states it, as from a file, and not from a passage.
    """
    metadata = chunk.metadata or {}
    sections = metadata.get("sections") or ([chunk.section_title] if chunk.section_title else [])
    whole = ChunkEntity(
        text=chunk.content_text or "",
        page=chunk.source_page,
        section_title=chunk.section_title,
        sections=tuple(sections),
        content_type=chunk.content_type,
        subtype=chunk.bda_entity_subtype,
        reading_order=chunk.reading_order,
        entity_id=chunk.bda_entity_id,
    )
    parts = metadata.get("parts")
    yield from (replace(whole, **each) for each in parts) if parts else (whole,)
