"""One more statement in a complete policy: a condition permits nothing, a restriction is never overlooked."""

from __future__ import annotations

import pytest

from tests.systems.tripcortex.unit.policy_rules.documents import POLICY, judge
from tripcortex.domain.policy_rules.rules import Outcome

# Business class on long flights is only covered by the general standard here.
WITHOUT_BUSINESS = POLICY.replace(
    "- Business class on long-haul flights requires the approval of the Vice President.\n", ""
).replace("- Premium economy is permitted on long-haul flights.\n", "")


def add(policy: str, statement: str) -> str:
    return policy.replace("## 5. Questions", f"## 4b. More\n\n{statement}\n\n## 5. Questions")


@pytest.mark.parametrize("mark", ["", "- "])
@pytest.mark.parametrize(
    "statement",
    [
        "Business class is permitted for employees who travel more than 100 days a year.",
        "Business class may be used where the client reimburses the fare.",
        "Business class is allowed if economy is sold out.",
        "Where business class is permitted, the seat must be booked in the portal.",
        "Executives travelling with clients may fly business class.",
        "Business class may be considered in exceptional circumstances.",
        "Employees returning from parental leave may fly business class.",
        "Business class is acceptable during the winter schedule.",
        "The board may travel in business class.",
        "Business class is permitted on flights to zone 7.",
        "Business class may be booked on trains.",
        "Previously business class was permitted on long-haul flights.",
        "From 2029 business class may be booked on long-haul flights.",
        "Business class fares are permitted as a comparison in the quotation.",
        "Business class may be approved.",
        "Business class on long-haul flights is permitted once per year.",
        "Business class is permitted on long-haul flights operated by Lufthansa.",
        "Business class is permitted on the outbound leg only.",
        "Staff of the London office may fly business class on long-haul flights.",
    ],
)
def test_conditional_permission_permits_nothing(statement: str, mark: str) -> None:
    found = judge(add(WITHOUT_BUSINESS, f"{mark}{statement}"), "SFO", "NRT", cabin="business")
    assert found.verdict is not Outcome.allowed


def test_plain_permission_permits() -> None:
    statement = "Business class may be booked on long-haul flights."
    assert judge(add(WITHOUT_BUSINESS, statement), "SFO", "NRT", cabin="business").verdict is Outcome.allowed


@pytest.mark.parametrize(
    "statement",
    [
        "All domestic travel requires approval of the VP.",
        "Domestic flights must be approved by the line manager.",
        "United Airlines must not be booked.",
        "The use of United is prohibited.",
        "Trips to Chicago are not permitted.",
        "No fare may exceed $40.",
        "Fares on domestic routes are capped at $45.",
        "A ticket may cost at most $45.",
        "Tickets above $45 need the approval of the CFO.",
        "Flights must be booked at least 60 days before departure.",
        "Bookings within 45 days of departure are not allowed.",
        "Tickets bought less than six weeks ahead need the approval of the CFO.",
        "Travel within the United States is suspended.",
        "Travel to the United States requires clearance by Security.",
        "Do not travel to Illinois.",
        "Every trip has to be signed off by the department head.",
        "All air travel must be pre-approved by your manager.",
        "International and domestic travel is only possible with the approval of the CEO.",
    ],
)
def test_restriction_is_not_overlooked(statement: str) -> None:
    assert judge(POLICY, "SFO", "ORD", price=100).verdict is Outcome.allowed
    assert judge(add(POLICY, statement), "SFO", "ORD", price=100).verdict is not Outcome.allowed
