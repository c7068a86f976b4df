"""A table moved to a new key while it is read and written: nothing lost, nothing that comes back.

    plan      every row is tried first: what cannot be moved, which new keys collide; nothing is written
    prepare   the target is created, the source's stream switched on; from here on its changes are followed
    backfill  every row is copied, if it still is what was read and the target has none
    verify    counts and checksums of both sides; what differs is copied again
    switch    writers of the source wait a moment, both sides are compared once more, and the target is the truth
    remove    the source is deleted, if nobody wrote to it since

`declaration` is what a system declares and its writers and readers use; `running` goes through the steps, with
`plan`, `preparing`, `changes` (the stream), `copying` and `comparing`; `removing` ends it. `state` is what is kept of it,
`transitions` how it changes, `lease` who may go on, `reporting` what is told.
"""

from __future__ import annotations

from holdfast.guarantees.migration.comparing import Comparison, Difference, Tally, source_tally
from holdfast.guarantees.migration.declaration import Migration, fence, hold_lifted, state_of
from holdfast.guarantees.migration.plan import Plan, plan
from holdfast.guarantees.migration.removing import remove
from holdfast.guarantees.migration.reporting import Report, status
from holdfast.guarantees.migration.running import Step, migrate
from holdfast.guarantees.migration.settings import Pace
from holdfast.guarantees.migration.state import MIGRATIONS, MigrationState, MigrationWork, Phase

__all__ = [
    "MIGRATIONS",
    "Comparison",
    "Difference",
    "Migration",
    "MigrationState",
    "MigrationWork",
    "Pace",
    "Phase",
    "Plan",
    "Report",
    "Step",
    "Tally",
    "fence",
    "hold_lifted",
    "migrate",
    "plan",
    "remove",
    "source_tally",
    "state_of",
    "status",
]
