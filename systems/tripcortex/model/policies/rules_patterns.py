"""Access patterns of the rules of policies: proposals, logged decisions, and the rules that decide."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from holdfast import Pattern, pattern
from holdfast.model.sql import SqlChange, SqlOne, SqlReturning, SqlRows
from tripcortex.model.policies.patterns import ADMIN, BOOKING, UPLOAD
from tripcortex.model.policies.rules import (
    DecidedRule,
    NewRule,
    RuleAction,
    RuleChange,
    RuleChunk,
    RuleOrigin,
    RuleStatus,
    ServingRule,
    StoredRule,
)
from tripcortex.model.policies.schema import ServingRules, tripcortex

# The most rules of one edition; a long policy has a few hundred.
MAX_RULES: Final = 5_000

_NOW: Final = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
# The main policy of the sample data, and its document.
_ID: Final = UUID("018f3c1e-0000-7000-8000-000000000002")
_RULE: Final = "cabin-3f2a"


# --- the rules that decide ----------------------------------------------------------------------------------


@pattern("PR1", "List the rules of serving policies with these statuses", rate=BOOKING, example=())
def serving_rules_in(
    statuses: Sequence[RuleStatus] = (RuleStatus.confirmed,), policy_ids: Sequence[UUID] | None = None
) -> SqlRows[ServingRule]:
    """Return the rules of the newest policy first.

    With `policy_ids`, those of exactly these editions, whether they serve or not.
    """
    return tripcortex.rows(
        ServingRule,
        """SELECT rule.policy_id, policy.file_name, rule.rule_id, rule.status,
               coalesce(rule.decided, rule.proposed) AS rule
           FROM tripcortex.policy_rules AS rule
           JOIN tripcortex.policies AS policy ON policy.id = rule.policy_id
           WHERE rule.status = ANY(%(statuses)s::text[])
               AND (policy.id = ANY(%(policy_ids)s::uuid[])
                   OR %(policy_ids)s::uuid[] IS NULL AND policy.serves)
           ORDER BY policy.created_at DESC, policy.id, rule.position, rule.rule_id""",
        statuses=tuple(each.value for each in statuses),
        policy_ids=None if policy_ids is None else tuple(policy_ids),
    )


@pattern(
    "PR2",
    "List the machine-readable rules of policies whose rules were never stored",
    rate=BOOKING,
    example=(),
)
def unstored_rules(policy_ids: Sequence[UUID] | None = None) -> SqlRows[ServingRules]:
    """Return those that an older version ingested, of the same policies as PR1."""
    return tripcortex.rows(
        ServingRules,
        """SELECT id, file_name, coalesce(rules, '{}'::jsonb) AS rules FROM tripcortex.policies
           WHERE rules IS NOT NULL AND rules_proposed_at IS NULL
               AND (id = ANY(%(policy_ids)s::uuid[]) OR %(policy_ids)s::uuid[] IS NULL AND serves)
           ORDER BY created_at DESC, id""",
        policy_ids=None if policy_ids is None else tuple(policy_ids),
    )


# --- review -------------------------------------------------------------------------------------------------


@pattern("PR3", "List the rules of a policy in the order of the document", rate=ADMIN, example=(_ID,))
def stored_rules(
    policy_id: UUID, status: RuleStatus | None = None, *, limit: int = MAX_RULES
) -> SqlRows[StoredRule]:
    return tripcortex.rows(
        StoredRule,
        """SELECT {columns} FROM tripcortex.policy_rules
           WHERE policy_id = %(policy_id)s AND (%(status)s::text IS NULL OR status = %(status)s::text)
           ORDER BY position, rule_id LIMIT %(limit)s""",
        policy_id=policy_id,
        status=None if status is None else status.value,
        limit=limit,
    )


@pattern("PR4", "Get a rule of a policy", rate=ADMIN, example=(_ID, _RULE))
def stored_rule(policy_id: UUID, rule_id: str) -> SqlOne[StoredRule]:
    return tripcortex.one(
        StoredRule,
        """SELECT {columns} FROM tripcortex.policy_rules
           WHERE policy_id = %(policy_id)s AND rule_id = %(rule_id)s""",
        policy_id=policy_id,
        rule_id=rule_id,
    )


@pattern("PR5", "List the changes of a rule, oldest first", rate=ADMIN, example=(_ID, _RULE))
def rule_changes(policy_id: UUID, rule_id: str) -> SqlRows[RuleChange]:
    return tripcortex.rows(
        RuleChange,
        """SELECT {columns} FROM tripcortex.policy_rule_changes
           WHERE policy_id = %(policy_id)s AND rule_id = %(rule_id)s ORDER BY version""",
        policy_id=policy_id,
        rule_id=rule_id,
    )


@pattern(
    "PR6",
    "Decide about a rule if its version is unchanged, and log the decision",
    rate=ADMIN,
    example=(_ID, _RULE, 1, RuleAction.confirm, "emp-1", _NOW),
)
def decide_rule(
    policy_id: UUID,
    rule_id: str,
    seen: int,
    action: RuleAction,
    by: str,
    at: datetime,
    *,
    decided: dict[str, Any] | None = None,
    reason: str | None = None,
) -> SqlReturning[StoredRule]:
    """Compare and set: another version fails with `ConditionFailed`. The log has the entry, or neither does.

    `decided` is the rule after an edit; without it an earlier edit remains.
    """
    status = RuleStatus.rejected if action is RuleAction.reject else RuleStatus.confirmed
    return tripcortex.returning(
        StoredRule,
        """WITH changed AS (
               UPDATE tripcortex.policy_rules
               SET status = %(status)s::text, decided = coalesce(%(decided)s::jsonb, decided),
                   decided_by = %(by)s, decided_at = %(at)s, updated_at = %(at)s, version = version + 1
               WHERE policy_id = %(policy_id)s AND rule_id = %(rule_id)s AND version = %(seen)s
               RETURNING {columns}
           ), logged AS (
               INSERT INTO tripcortex.policy_rule_changes
                   (policy_id, rule_id, version, action, status, rule, changed_by, changed_at, reason)
               SELECT policy_id, rule_id, version, %(action)s::text, status, coalesce(decided, proposed),
                   %(by)s, %(at)s, %(reason)s::text
               FROM changed
           )
           SELECT {columns} FROM changed""",
        policy_id=policy_id,
        rule_id=rule_id,
        seen=seen,
        status=status.value,
        action=action.value,
        by=by,
        at=at,
        decided=None if decided is None else json.dumps(decided),
        reason=reason,
    ).expect_rows(1)


# --- proposals ----------------------------------------------------------------------------------------------


@pattern(
    "PR7", "Read the chunks of a policy in reading order, to propose its rules", rate=UPLOAD, example=(_ID,)
)
def rule_chunks(policy_id: UUID) -> SqlRows[RuleChunk]:
    return tripcortex.rows(
        RuleChunk,
        """SELECT content_type, content_text, section_title, source_page,
               coalesce(reading_order, 0) AS reading_order, coalesce(bda_entity_id, '') AS bda_entity_id,
               coalesce(bda_entity_subtype, '') AS bda_entity_subtype, metadata
           FROM tripcortex.policy_chunks WHERE policy_id = %(policy_id)s ORDER BY reading_order, id""",
        policy_id=policy_id,
    )


@pattern("PR8", "List the latest decisions in earlier editions of a document", rate=UPLOAD, example=(_ID, 2))
def earlier_decisions(document_id: UUID, edition: int) -> SqlRows[DecidedRule]:
    """Return for each rule the decision of the newest edition before `edition` that has the rule decided."""
    return tripcortex.rows(
        DecidedRule,
        """SELECT DISTINCT ON (rule.rule_id) rule.rule_id, policy.edition, rule.status, rule.proposed,
               rule.decided, rule.decided_by, rule.decided_at
           FROM tripcortex.policy_rules AS rule
           JOIN tripcortex.policies AS policy ON policy.id = rule.policy_id
           WHERE policy.document_id = %(document_id)s AND policy.edition < %(edition)s
               AND rule.status <> 'proposed' AND rule.origin = 'document'
           ORDER BY rule.rule_id, policy.edition DESC""",
        document_id=document_id,
        edition=edition,
    )


@pattern("PR9", "Delete the undecided rules of a policy, to propose them again", rate=UPLOAD, example=(_ID,))
def delete_proposals(policy_id: UUID) -> SqlChange:
    return tripcortex.change(
        "DELETE FROM tripcortex.policy_rules WHERE policy_id = %(policy_id)s AND status = 'proposed'",
        policy_id=policy_id,
    ).idempotent()


def _build_example_rules() -> tuple[Any, ...]:
    """Return the arguments of a pattern's example: one proposal of a policy."""
    rule = NewRule(
        rule_id=_RULE,
        position=1,
        origin=RuleOrigin.document,
        proposed={"rule_id": _RULE},
        quote="Economy class below six hours.",
        page=2,
        section="Cabins",
        is_complete=True,
    )
    return (_ID, (rule,), _NOW)


@pattern(
    "PR10",
    "Insert the rules of a policy that it does not have yet",
    rate=UPLOAD,
    example=_build_example_rules,
)
def insert_rules(policy_id: UUID, rules: Sequence[NewRule], at: datetime) -> SqlChange:
    """Insert all rules in one statement; a rule that exists keeps its decision.

    A rule that is inserted with a decision gets an entry in the log.
    """
    return tripcortex.change(
        """WITH given AS (
               SELECT rule_id, position, origin, status, proposed, decided, quote, page, section, is_complete,
                   decided_by, decided_at, action, reason
               FROM jsonb_to_recordset(%(rules)s::jsonb) AS each (
                   rule_id text, position int, origin text, status text, proposed jsonb, decided jsonb,
                   quote text, page int, section text, is_complete boolean, decided_by text,
                   decided_at timestamptz, action text, reason text)
           ), made AS (
               INSERT INTO tripcortex.policy_rules (policy_id, rule_id, position, origin, status, proposed,
                   decided, quote, page, section, is_complete, decided_by, decided_at, created_at, updated_at)
               SELECT %(policy_id)s, rule_id, position, origin, status, proposed,
                   nullif(decided, 'null'::jsonb), quote, page, section, is_complete, decided_by, decided_at,
                   %(at)s, %(at)s
               FROM given
               ON CONFLICT (policy_id, rule_id) DO NOTHING
               RETURNING rule_id, version, status, coalesce(decided, proposed) AS rule, decided_by, decided_at
           )
           INSERT INTO tripcortex.policy_rule_changes
               (policy_id, rule_id, version, action, status, rule, changed_by, changed_at, reason)
           SELECT %(policy_id)s, made.rule_id, made.version, given.action, made.status, made.rule,
               made.decided_by, made.decided_at, given.reason
           FROM made JOIN given USING (rule_id) WHERE given.action IS NOT NULL""",
        policy_id=policy_id,
        rules=json.dumps([each.model_dump(mode="json") for each in rules]),
        at=at,
    )


@pattern("PR11", "Record that the rules of a policy are stored", rate=UPLOAD, example=(_ID, _NOW))
def note_rules_stored(policy_id: UUID, at: datetime) -> SqlChange:
    return tripcortex.change(
        "UPDATE tripcortex.policies SET rules_proposed_at = %(at)s WHERE id = %(policy_id)s",
        policy_id=policy_id,
        at=at,
    ).expect_rows(1)


QUESTION_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (serving_rules_in, unstored_rules)
READ_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    *QUESTION_PATTERNS,
    stored_rules,
    stored_rule,
    rule_changes,
    rule_chunks,
    earlier_decisions,
)
WRITE_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    decide_rule,
    delete_proposals,
    insert_rules,
    note_rules_stored,
)
PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (*READ_PATTERNS, *WRITE_PATTERNS)
