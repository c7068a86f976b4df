"""The crew roster, while it moves from CrewRoster to CrewRoster_v2: which table is read, and how a row is carried over."""

from __future__ import annotations

from holdfast import Stores
from skymarshal.model import CrewAssignment, CrewDuty


def duty_of(assignment: CrewAssignment) -> CrewDuty:
    """The same assignment under its new key."""
    return CrewDuty(**{name: getattr(assignment, name) for name in CrewDuty.model_fields})


async def reads_from_new_table(stores: Stores) -> bool:
    """Whether the new table is the one to read."""
    return False
