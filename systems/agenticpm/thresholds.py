"""From where on something calls for attention. All of it is a project's to set, in its `config` under `thresholds`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from agenticpm.tickets import Value

Days = Annotated[int, Field(ge=1, le=3650)]
Share = Annotated[Decimal, Field(gt=0, le=100)]


class Thresholds(Value):
    # A ticket in progress that nobody touched for so many working days is stale.
    stale_working_days: Days = 5
    # Of what was so before the project was watched, more than this many of a kind are told as one.
    gathered_above: Annotated[int, Field(ge=1, le=1000)] = 10
    # A sprint that begins within so many days is near: its tickets should have acceptance criteria.
    near_sprint_days: Days = 7
    # What comes in within so many hours of a sprint's start was still planned.
    planning_hours: Annotated[int, Field(ge=0, le=240)] = 4
    # Scope creeps when what was added is this share of what was planned; a ticket, when its points grew by this share.
    scope_share: Share = Decimal("0.2")
    growth_share: Share = Decimal("0.5")
    # A trend turns when the recent half of the measurements differs from the earlier half by this share.
    velocity_share: Share = Decimal("0.2")
    cycle_time_share: Share = Decimal("0.25")
    # A milestone that slips by so many days is serious; by so many more, critical.
    slip_error_days: Days = 4
    slip_critical_days: Days = 15
    # A milestone that was put off is at risk for so many days from then, until it is done or back at its date.
    moved_days: Days = 14
    # A risk that is due within so many days is near; one that nobody reviewed for so many wants a review.
    risk_due_days: Days = 7
    review_days: Days = 30


def thresholds_of(config: Mapping[str, Any]) -> Thresholds:
    """A project's own, from its `config`; those that it does not set stay. What is no threshold raises ValueError."""
    return Thresholds.model_validate(config.get("thresholds") or {})
