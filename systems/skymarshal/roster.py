"""From the document's crew roster to the new one: the same assignment under another key.

The sample and the live migration both go through here, so that the two tables cannot come to differ.
"""

from __future__ import annotations

from holdfast import Stores, describe
from skymarshal.model import CrewAssignment, CrewDuty, crew_roster


def duty_of(assignment: CrewAssignment) -> CrewDuty:
    """The duty of an assignment. Attributes that this code does not know go with it."""
    duty = CrewDuty(
        crew_id=assignment.crew_id,
        duty_start=assignment.duty_start,
        roster_id=assignment.roster_id,
        flight_id=assignment.flight_id,
        position_id=assignment.position_id,
        duty_end=assignment.duty_end,
        roster_status=assignment.roster_status,
        home_base=assignment.home_base,
        version=assignment.version,
        source_message=assignment.source_message,
    )
    duty.keep_unknown(assignment.unknown_attributes)
    return duty


async def reads_from_new_table(stores: Stores) -> bool:
    """Whether crews are read from the new table: once the old one is gone."""
    return await describe(stores, crew_roster) is None
