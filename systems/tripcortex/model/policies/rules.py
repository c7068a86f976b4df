"""Rows of `policy_rules` and `policy_rule_changes`: the rules of an edition, and each decision about them.

A row holds the rule as it was proposed and, after an edit, as the administrator changed it. The JSON is a
`PolicyRule` (`tripcortex.domain.policy_rules.rules`). Only confirmed rules of serving editions decide.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from holdfast.model.sql import SqlRow

MAX_RULE_ID_CHARS: Final = 128
MAX_SECTION_CHARS: Final = 255
MAX_REASON_CHARS: Final = 500


class RuleStatus(StrEnum):
    """An administrator's decision about a rule."""

    proposed = "proposed"
    confirmed = "confirmed"
    rejected = "rejected"


class RuleOrigin(StrEnum):
    """Where a rule comes from: the sentences of the document, or the JSON that was uploaded with it."""

    document = "document"
    json = "json"


class RuleAction(StrEnum):
    """A change in the log. `upload` confirms a JSON, `carry` repeats the decision of an earlier edition."""

    confirm = "confirm"
    edit = "edit"
    reject = "reject"
    upload = "upload"
    carry = "carry"


class StoredRule(SqlRow):
    """A rule of one edition. `decided` is the rule after an edit, None if it was confirmed as proposed."""

    policy_id: UUID
    rule_id: str
    position: int
    origin: RuleOrigin
    status: RuleStatus
    version: int
    proposed: dict[str, Any]
    decided: dict[str, Any] | None
    quote: str | None
    page: int | None
    section: str | None
    is_complete: bool
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def rule(self) -> dict[str, Any]:
        """Return the rule that decides if it is confirmed: the edited one, else the proposed one."""
        return self.proposed if self.decided is None else self.decided


class NewRule(SqlRow):
    """A rule to insert: proposed, or with the decision that an upload or an earlier edition made."""

    rule_id: str = Field(min_length=1, max_length=MAX_RULE_ID_CHARS)
    position: int
    origin: RuleOrigin
    status: RuleStatus = RuleStatus.proposed
    proposed: dict[str, Any]
    decided: dict[str, Any] | None = None
    quote: str | None
    page: int | None
    section: str | None
    is_complete: bool
    decided_by: str | None = None
    decided_at: datetime | None = None
    # The log's action and reason for a rule that is inserted with a decision.
    action: RuleAction | None = None
    reason: str | None = None


class DecidedRule(SqlRow):
    """The decision about a rule in an earlier edition of the document."""

    rule_id: str
    edition: int
    status: RuleStatus
    proposed: dict[str, Any]
    decided: dict[str, Any] | None
    decided_by: str | None
    decided_at: datetime | None


class ServingRule(SqlRow):
    """A rule of a serving edition, with its status, and the name of the document's file for citations."""

    policy_id: UUID
    file_name: str
    rule_id: str
    status: RuleStatus
    rule: dict[str, Any]


class RuleChange(SqlRow):
    """One entry of the log: who changed the rule, when, and the rule after the change. Append-only."""

    policy_id: UUID
    rule_id: str
    version: int
    action: RuleAction
    status: RuleStatus
    rule: dict[str, Any]
    changed_by: str | None
    changed_at: datetime
    reason: str | None


class RuleChunk(SqlRow):
    """A chunk of an edition, as the extraction of rules reads it."""

    content_type: str
    content_text: str | None
    section_title: str | None
    source_page: int | None
    reading_order: int
    bda_entity_id: str
    bda_entity_subtype: str
    metadata: dict[str, Any] | None
