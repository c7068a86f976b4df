"""Live migration of a table to a new key, while it is read and written, without losing a row.

No deleted row comes back either. The steps:

    plan      try every row first: which cannot be moved, which new keys collide; nothing is written
    prepare   create the target and enable the source's stream; from here on its changes are followed
    backfill  copy every row, if it is unchanged since it was read and the target has none
    verify    compare counts and checksums of both tables; copy differing rows again
    switch    block writers of the source for a moment, compare again, and make the target authoritative
    remove    delete the source, unless it was written to since

`declaration` is what a system declares and its writers and readers use; `runner` runs the steps, with `plan`,
`preparation`, `change_stream`, `copier` and `comparison`; `removal` ends it. `state` is the stored state,
`transitions` its changes, `lease` the right to run, `report` its progress.
"""

from __future__ import annotations

from holdfast.guarantees.table_migration.comparison import Comparison, RowDifference, Tally, tally_source
from holdfast.guarantees.table_migration.declaration import Migration, fence, get_migration_state, lift_hold
from holdfast.guarantees.table_migration.plan import MigrationPlan, plan_migration
from holdfast.guarantees.table_migration.removal import remove_source
from holdfast.guarantees.table_migration.report import MigrationReport, get_status
from holdfast.guarantees.table_migration.runner import MigrationStep, migrate
from holdfast.guarantees.table_migration.settings import Pace
from holdfast.guarantees.table_migration.state import MIGRATIONS, MigrationState, MigrationWork, Phase

__all__ = [
    "MIGRATIONS",
    "Comparison",
    "Migration",
    "MigrationPlan",
    "MigrationReport",
    "MigrationState",
    "MigrationStep",
    "MigrationWork",
    "Pace",
    "Phase",
    "RowDifference",
    "Tally",
    "fence",
    "get_migration_state",
    "get_status",
    "lift_hold",
    "migrate",
    "plan_migration",
    "remove_source",
    "tally_source",
]
