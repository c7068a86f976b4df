"""The runtime: binds a system to engines, runs operations within a component's grants, runs workers."""

from __future__ import annotations

from holdfast.runtime.csv_io.exporter import export_csv
from holdfast.runtime.csv_io.importer import Importer, ImportReport, import_csv
from holdfast.runtime.factory import (
    open_cipher,
    open_memory_stores,
    open_secrets,
    open_stores,
    open_systems,
)
from holdfast.runtime.recovery.backups import (
    RecoveryWindow,
    create_backup,
    get_recovery_window,
    list_backups,
    restore_in_place,
    restore_table,
)
from holdfast.runtime.recovery.restore_in_place import RestoreDifference, RestoreReport, revert_table
from holdfast.runtime.sql_checks import StatementMismatch, check_statements
from holdfast.runtime.stores import Observer, Stores
from holdfast.runtime.system_provisioner import (
    QueueReport,
    create_buckets,
    create_queues,
    get_queue_reports,
    get_schema_states,
    migrate_schemas,
    provision,
    sweep_buckets,
)
from holdfast.runtime.system_startup import start_system
from holdfast.runtime.table_provisioner import (
    IndexReport,
    add_indexes,
    create_tables,
    describe_table,
    get_index_reports,
    provision_tables,
)
from holdfast.runtime.telemetry.measurements import Measurement
from holdfast.runtime.telemetry.usage import Meter, Usage, meter_usage
from holdfast.runtime.workers import WorkerGroup, run_worker
from holdfast.security.secrets import Secret, Secrets

__all__ = [
    "ImportReport",
    "Importer",
    "IndexReport",
    "Measurement",
    "Meter",
    "Observer",
    "QueueReport",
    "RecoveryWindow",
    "RestoreDifference",
    "RestoreReport",
    "Secret",
    "Secrets",
    "StatementMismatch",
    "Stores",
    "Usage",
    "WorkerGroup",
    "add_indexes",
    "check_statements",
    "create_backup",
    "create_buckets",
    "create_queues",
    "create_tables",
    "describe_table",
    "export_csv",
    "get_index_reports",
    "get_queue_reports",
    "get_recovery_window",
    "get_schema_states",
    "import_csv",
    "list_backups",
    "meter_usage",
    "migrate_schemas",
    "open_cipher",
    "open_memory_stores",
    "open_secrets",
    "open_stores",
    "open_systems",
    "provision",
    "provision_tables",
    "restore_in_place",
    "restore_table",
    "revert_table",
    "run_worker",
    "start_system",
    "sweep_buckets",
]
