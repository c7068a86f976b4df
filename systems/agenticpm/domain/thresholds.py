"""Thresholds of the signals, with defaults; a project may override each in its `config.thresholds`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from agenticpm.domain.tickets import Value

Days = Annotated[int, Field(ge=1, le=3650)]
Share = Annotated[Decimal, Field(gt=0, le=100)]


class Thresholds(Value):
    # A ticket in progress that was not updated for this many working days is stale.
    """The limits at which a condition becomes a signal."""

    stale_working_days: Days = 5
    # More than this many conditions of one kind from before the project was watched become one signal.
    gathered_above: Annotated[int, Field(ge=1, le=1000)] = 10
    # A sprint that starts within this many days is near: its tickets should have acceptance criteria.
    near_sprint_days: Days = 7
    # A ticket added within this many hours of a sprint's start counts as planned.
    planning_hours: Annotated[int, Field(ge=0, le=240)] = 4
    # Scope creep: added work is this share of planned work, or a ticket's points grew by this share.
    scope_share: Share = Decimal("0.2")
    growth_share: Share = Decimal("0.5")
    # A trend turns when the recent half of the measurements differs from the earlier half by this share.
    velocity_share: Share = Decimal("0.2")
    cycle_time_share: Share = Decimal("0.25")
    # A milestone that slips by this many days is an error, or critical.
    slip_error_days: Days = 4
    slip_critical_days: Days = 15
    # A moved milestone is at risk for this many days, unless it is done or back at its date.
    moved_days: Days = 14
    # A risk due within this many days is reported; one not reviewed for this many days needs a review.
    risk_due_days: Days = 7
    review_days: Days = 30
    # A ticket due within this many days is due soon; one overdue for more than these is severe.
    due_soon_days: Annotated[int, Field(ge=0, le=365)] = 3
    very_overdue_days: Days = 14
    # Somebody with this many tickets in progress, and this many times as many as anybody else, is overloaded.
    overload_tickets: Annotated[int, Field(ge=2, le=1000)] = 5
    overload_factor: Share = Decimal(2)
    # A sprint is at risk when its open work is this many times what can be expected in the time left.
    sprint_overload: Share = Decimal("1.5")
    # A milestone is at risk when its forecast chance is below this; critical when due within these days.
    milestone_chance: Share = Decimal("0.15")
    near_milestone_days: Days = 30


def parse_thresholds(config: Mapping[str, Any]) -> Thresholds:
    """Return a project's thresholds from its `config`, with defaults. Raise ValueError if one is invalid."""
    return Thresholds.model_validate(config.get("thresholds") or {})
