"""The runtime: binds a model to engines, checks components, runs operations and decodes results."""

from __future__ import annotations

from holdfast.runtime.counting import Counted
from holdfast.runtime.exporting import export_csv
from holdfast.runtime.importing import Importer, ImportReport, import_csv
from holdfast.runtime.opening import (
    open_cipher,
    open_secrets,
    open_stores,
    open_tables_engine,
    stores_in_memory,
)
from holdfast.runtime.preparation import (
    QueueReport,
    create_buckets,
    create_queues,
    migrate_schemas,
    prepare,
    queue_reports,
    schema_states,
    sweep_buckets,
)
from holdfast.runtime.provisioning import (
    IndexReport,
    add_indexes,
    create_tables,
    describe,
    index_reports,
    prepare_tables,
)
from holdfast.runtime.putting_back import Difference, PutBack, put_back
from holdfast.runtime.restoring import (
    Window,
    back_up,
    list_backups,
    recovery_window,
    restore,
    restore_in_place,
)
from holdfast.runtime.statements import Misfit, check_statements
from holdfast.runtime.stores import Observer, Stores
from holdfast.runtime.usage import Meter, Usage, metered
from holdfast.runtime.workers import Work, work
from holdfast.security.secrets import Secret, Secrets

__all__ = [
    "Counted",
    "Difference",
    "ImportReport",
    "Importer",
    "IndexReport",
    "Meter",
    "Misfit",
    "Observer",
    "PutBack",
    "QueueReport",
    "Secret",
    "Secrets",
    "Stores",
    "Usage",
    "Window",
    "Work",
    "add_indexes",
    "back_up",
    "check_statements",
    "create_buckets",
    "create_queues",
    "create_tables",
    "describe",
    "export_csv",
    "import_csv",
    "index_reports",
    "list_backups",
    "metered",
    "migrate_schemas",
    "open_cipher",
    "open_secrets",
    "open_stores",
    "open_tables_engine",
    "prepare",
    "prepare_tables",
    "put_back",
    "queue_reports",
    "recovery_window",
    "restore",
    "restore_in_place",
    "schema_states",
    "stores_in_memory",
    "sweep_buckets",
    "work",
]
