"""Sentences whose rules are known, as a stand-in for the extraction of rules in tests of their review."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from tests.systems.tripcortex.contract.policies.knowledge_base import (
    AXES,
    Base,
    FakeParser,
    make_paragraph,
)
from tripcortex.domain.policy_rules.proposals import PolicyEntity
from tripcortex.domain.policy_rules.rules import Effect, PolicyRule
from tripcortex.model.entities import Cabin
from tripcortex.model.policies.schema import Policy
from tripcortex.policies.uploads import Upload

ECONOMY = "Economy is the highest cabin."
CAP = "An economy fare is at most 500 dollars."
CAP_RAISED = "An economy fare is at most 600 dollars."
VAGUE = "Business is fine on flights that our partners call long."
UNKNOWN = "Talk to us about trains."
STATEMENTS: dict[str, dict[str, Any]] = {
    ECONOMY: {"effect": Effect.max_cabin, "cabin": Cabin.economy},
    CAP: {"effect": Effect.fare_cap, "amount_usd": Decimal(500), "basis": "round_trip"},
    CAP_RAISED: {"effect": Effect.fare_cap, "amount_usd": Decimal(600), "basis": "round_trip"},
    VAGUE: {"effect": Effect.max_cabin, "cabin": Cabin.business, "is_complete": False},
    UNKNOWN: {"effect": Effect.unknown},
}
GIVEN = Upload("policy.md", b"# Policy", uploaded_by="emp-7")


def propose_known(entities: Iterable[PolicyEntity]) -> tuple[PolicyRule, ...]:
    """Propose the rules of the sentences in `STATEMENTS`, as the extraction does for those it understands."""
    return tuple(
        PolicyRule(
            text=each.text, quote=each.text, page=each.page, section=each.sections[-1], **known
        ).with_id()
        for each in entities
        if (known := STATEMENTS.get(each.text)) is not None
    )


def make_parser(*sentences: str) -> FakeParser:
    return FakeParser([make_paragraph(each, place) for place, each in enumerate(sentences, 1)])


def add_policy(base: Base, *sentences: str, rules: dict[str, Any] | None = None) -> Policy:
    """Upload and ingest a policy with these sentences and JSON; it serves."""
    given = Upload(GIVEN.file_name, GIVEN.body, GIVEN.uploaded_by, rules)
    return base.add_policy(given, make_parser(*sentences), AXES)
