"""Policy rules with scope: one rule is one statement of a policy, with the trips that it is about.

    document → `propose_rules` ┐
                               ├→ `PolicyRule` → (an administrator confirms) → `judge_trip`
    JSON → `convert_policy`    ┘

A rule is immutable and round-trips as JSON. Places are written as tokens: `US` is a country, `JFK` an
airport, and a lower-case name such as `europe` a region (`regions.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal, Self

from pydantic import Field

from holdfast import Document
from tripcortex.model.entities import Cabin, Citation

_ID_LENGTH: Final = 16


class Effect(StrEnum):
    """The subject of a rule: which value of the trip it limits."""

    # The best cabin (`cabin`); what a better one needs is `outcome`.
    max_cabin = "max_cabin"
    # What the cabins from `cabin` on need, whatever else permits them.
    cabin_outcome = "cabin_outcome"
    # The maximum fare (`amount_usd`, `basis`); what a higher one needs is `outcome`.
    fare_cap = "fare_cap"
    # What a fare above the cap needs, by how much it is above (`over_percent`, `over_usd`).
    overage = "overage"
    # A cap within the scope is `percent` of itself, or higher by `amount_usd`: "1.6 times for premium
    # economy".
    fare_adjustment = "fare_adjustment"
    # The minimum `days` ahead, below which `outcome` applies; without `days`, the outcome in the
    # scope's days.
    notice = "notice"
    # `carriers` are preferred within `percent` of the lowest fare; what another one needs is `outcome`.
    preferred_carriers = "preferred_carriers"
    prohibited_carriers = "prohibited_carriers"
    prohibited_destinations = "prohibited_destinations"
    # Every trip within the scope needs `outcome`.
    trip_outcome = "trip_outcome"
    # A statement about trips that was not understood: it is shown to the administrator.
    unknown = "unknown"


class Outcome(StrEnum):
    """What a rule asks for, from the laxest to the strictest."""

    allowed = "allowed"
    approval = "approval"
    forbidden = "forbidden"

    @property
    def rank(self) -> int:
        return list(Outcome).index(self)


Basis = Literal["one_way", "round_trip"]
# What a statement that was not understood is about; `document` is a document that is not whole.
SubjectName = Literal["", "cabin", "fare", "notice", "carrier", "trip", "document"]
# The note of a rule for "all other routes".
OTHER_NOTE: Final = "All routes that the other rules of this list do not name."
# The level of an employee whose level is not known: the one that has no special rights.
ORDINARY: Final = "ordinary"


class Range(Document):
    """A range of numbers; an end that is None is open."""

    low: Decimal | None = None
    high: Decimal | None = None
    low_included: bool = True
    high_included: bool = True

    def __contains__(self, value: Decimal | int) -> bool:
        if self.low is not None and (value < self.low or (value == self.low and not self.low_included)):
            return False
        return self.high is None or value < self.high or (value == self.high and self.high_included)

    @property
    def is_open(self) -> bool:
        """Return True if the range contains every number."""
        return self.low is None and self.high is None


class RoutePattern(Document):
    """A kind of route: between the places `one` and the places `other`, in either direction.

    Without places an end is anywhere. `is_domestic` is True for both ends in one country, False for two
    countries. `is_directed` means from `one` to `other` only.
    """

    one: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    is_domestic: bool | None = None
    is_directed: bool = False


class RuleScope(Document):
    """The trips that a rule is about. An empty member excludes no trip.

    `routes` are alternatives, and a route of `except_routes` is outside the scope. `levels` are the policy's
    own names. `departs` are local hours of departure, such as 22 to 5. `trip` restricts the rule to one-way
    or return trips.
    """

    routes: tuple[RoutePattern, ...] = ()
    except_routes: tuple[RoutePattern, ...] = ()
    hours: Range = Range()
    distance_km: Range = Range()
    days_ahead: Range = Range()
    levels: tuple[str, ...] = ()
    except_levels: tuple[str, ...] = ()
    cabins: tuple[Cabin, ...] = ()
    carriers: tuple[str, ...] = ()
    departs: Range = Range()
    # The price of the whole trip, and the nights between departure and return.
    price_usd: Range = Range()
    nights: Range = Range()
    # Days of the year on which a flight leaves, as "12-20" and "01-04", and days of the week from Monday = 0.
    season: tuple[str, ...] = ()
    weekdays: tuple[int, ...] = ()
    trip: Basis | None = None


class PolicyRule(Document):
    """One statement of a policy.

    `approvers` are the policy's own words, in its order, all required; alternatives are one entry ("CFO or
    COO"). An incomplete rule has a scope that was stated but not understood: it may restrict, never permit.
    An exception says
    itself that it takes precedence over more general rules.
    """

    rule_id: str = ""
    text: str
    effect: Effect
    outcome: Outcome = Outcome.approval
    approvers: tuple[str, ...] = ()
    cabin: Cabin | None = None
    amount_usd: Decimal | None = None
    basis: Basis | None = None
    # The part of a round trip's cap that a one-way ticket may cost; half without one.
    one_way_percent: Decimal | None = None
    over_percent: Range | None = None
    over_usd: Range | None = None
    days: int | None = Field(default=None, ge=0)
    percent: Decimal | None = None
    carriers: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    scope: RuleScope = RuleScope()
    quote: str = ""
    page: int | None = None
    section: str | None = None
    is_complete: bool = True
    is_exception: bool = False
    # Of a statement that was not understood.
    subject: SubjectName = ""
    # Set when the rule is loaded: it waits for an administrator, so its subject is not settled.
    is_pending: bool = False
    notes: tuple[str, ...] = ()
    # Rules of one table or list have the same group: there a more specific row is an exception of a
    # general one.
    group: str = ""
    # Set when the rule is stored: the policy's id and file, which citations name.
    policy_id: str = ""
    file_name: str = ""

    def with_id(self) -> Self:
        """Return the rule with its id: the same quote, effect, values and scope always give the same one."""
        return self.model_copy(update={"rule_id": self._derive_id()})

    def cite(self) -> Citation:
        """Return the citation of the rule's words."""
        return Citation(
            chunk_id=f"rule:{self.rule_id}",
            policy_id=self.policy_id,
            file_name=self.file_name,
            source_page=self.page,
            section_title=self.section,
            quote=self.quote or self.text,
        )

    def _derive_id(self) -> str:
        """Return a digest of the members that make the rule what it is.

        Its place in the document is not one.
        """
        left_out = {"rule_id", "text", "page", "section", "notes", "group", "policy_id", "file_name",
                    "is_pending"}  # fmt: skip
        stated: dict[str, Any] = self.model_dump(mode="json", exclude=left_out, exclude_defaults=True)
        text = json.dumps(stated, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


def merge_approvers(chains: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return all approvers of the chains, each once, in the order of the chains."""
    found: dict[str, str] = {}
    for chain in chains:
        for approver in chain:
            found.setdefault(_normalize_approver(approver), approver)
    return tuple(found.values())


def _normalize_approver(approver: str) -> str:
    """Return the approver for comparison: "L1" and "L1 Manager" are one, as are "VP" and "VP-level"."""
    key = re.sub(r"[- ]level$|^(?:the|a|an|your|their) ", "", approver.casefold())
    return re.sub(r"^((?:l|level |grade |band )\d{1,2}) manager$", r"\1", key)
