"""Continuous backups, on-demand backups and restores on every tables engine."""

from __future__ import annotations

import pytest

from holdfast.core.errors import BackupNotFound, RecoveryUnavailable, TableAlreadyExists, TableNotFound
from holdfast.operations.tables import (
    BackupName,
    BackupSummary,
    ContinuousBackups,
    CreateBackup,
    DeleteBackup,
    DescribeBackup,
    DescribeContinuousBackups,
    ListBackups,
    RestoreOverrides,
    RestoreTableFromBackup,
    RestoreTableToPointInTime,
    Scan,
    Throughput,
    UpdateContinuousBackups,
)
from holdfast.operations.values import Item

from .store import MAX_SETTLING_ROUNDS, Store, index, table

ITEMS: list[Item] = [{"pk": "a", "kind": "x"}, {"pk": "b", "kind": "y"}]


@pytest.fixture
def name(store: Store) -> str:
    """Create a table with a global index and two items."""
    made = store.create("pk:S", attributes=("kind:S",), gsi=(index("by_kind", "kind"),))
    store.put(made, *ITEMS)
    return made


def make_backup(store: Store, name: str) -> BackupSummary:
    """Create a backup and return its summary once it is AVAILABLE."""
    made = store.run(CreateBackup(table=name, name="before"))
    for _ in range(MAX_SETTLING_ROUNDS):
        described = store.run(DescribeBackup(backup=BackupName(name, made.id)))
        if described.summary.status == "AVAILABLE":
            return described.summary
        store.settle()
    raise AssertionError("the backup did not become available")


def contents(store: Store, name: str) -> list[Item]:
    """Return the table's items, sorted by partition key."""
    return sorted(store.run(Scan(table=name)).items or (), key=lambda item: str(item["pk"]))


def test_recovery_is_switched_on_and_off(store: Store, name: str) -> None:
    assert store.run(DescribeContinuousBackups(table=name)) == ContinuousBackups(enabled=False)

    changed = store.run(UpdateContinuousBackups(table=name, enabled=True))
    assert changed.enabled
    assert changed.earliest is not None
    assert changed.latest is not None
    assert changed.earliest <= changed.latest
    assert store.run(DescribeContinuousBackups(table=name)).enabled
    off = store.run(UpdateContinuousBackups(table=name, enabled=False))
    assert off == ContinuousBackups(enabled=False)


def test_describes_the_recovery_window(store: Store, name: str) -> None:
    assert store.run(UpdateContinuousBackups(table=name, enabled=True)).recovery_days == 35
    assert store.run(UpdateContinuousBackups(table=name, enabled=True, recovery_days=7)).recovery_days == 7


def test_a_backup_is_described_and_listed(store: Store, name: str) -> None:
    summary = make_backup(store, name)

    assert (summary.name, summary.table, summary.type) == ("before", name, "USER")
    described = store.run(DescribeBackup(backup=BackupName(name, summary.id)))
    assert described.source.definition.keys.names == ("pk",)
    assert [each.name for each in described.source.definition.global_indexes] == ["by_kind"]
    assert [each.id for each in store.run(ListBackups(table=name)).backups] == [summary.id]
    moment = summary.created_at
    assert store.run(ListBackups(table=name, since=moment, before=moment + 0.001)).backups == (summary,)
    assert store.run(ListBackups(table=name, before=moment)).backups == ()
    assert store.run(ListBackups(table=name, since=moment + 0.001)).backups == ()


def test_a_backup_is_restored_into_another_table(store: Store, name: str) -> None:
    summary = make_backup(store, name)
    store.put(name, {"pk": "later", "kind": "x"})

    store.run(RestoreTableFromBackup(backup=BackupName(name, summary.id), target=f"{name}_restored"))
    restored = store.wait_until_active(f"{name}_restored")
    assert contents(store, restored.definition.name) == ITEMS
    assert restored.definition == table(
        f"{name}_restored", "pk:S", attributes=("kind:S",), gsi=(index("by_kind", "kind"),)
    )
    assert restored.restore is not None
    assert (restored.restore.source_table, restored.restore.backup_id) == (name, summary.id)


def test_a_restored_table_can_be_paid_for_in_another_way_and_have_no_indexes(store: Store, name: str) -> None:
    backup = BackupName(name, make_backup(store, name).id)
    other = RestoreOverrides(billing_mode="PROVISIONED", throughput=Throughput(2, 3), global_indexes=())

    store.run(RestoreTableFromBackup(backup=backup, target=f"{name}_other", overrides=other))
    definition = store.wait_until_active(f"{name}_other").definition
    assert (definition.billing_mode, definition.throughput) == ("PROVISIONED", Throughput(2, 3))
    assert definition.global_indexes == ()


def test_a_table_is_restored_as_it_is_now(store: Store, name: str) -> None:
    store.run(UpdateContinuousBackups(table=name, enabled=True))

    store.run(RestoreTableToPointInTime(source=name, target=f"{name}_now"))
    store.wait_until_active(f"{name}_now")
    assert contents(store, f"{name}_now") == ITEMS


def test_a_deleted_backup_is_gone(store: Store, name: str) -> None:
    backup = BackupName(name, make_backup(store, name).id)

    assert store.run(DeleteBackup(backup=backup)).summary.status == "DELETED"
    with pytest.raises(BackupNotFound):
        store.run(DescribeBackup(backup=backup))


# --- refusals -----------------------------------------------------------------------------------------------


def test_a_restore_without_recovery_is_refused(store: Store, name: str) -> None:
    with pytest.raises(RecoveryUnavailable):
        store.run(RestoreTableToPointInTime(source=name, target=f"{name}_x"))


def test_a_restore_into_a_table_that_exists_is_refused(store: Store, name: str) -> None:
    backup = BackupName(name, make_backup(store, name).id)

    with pytest.raises(TableAlreadyExists):
        store.run(RestoreTableFromBackup(backup=backup, target=name))


def test_recovery_of_a_missing_table_is_not_found(store: Store) -> None:
    with pytest.raises(TableNotFound):
        store.run(DescribeContinuousBackups(table="Nowhere"))


def test_backup_of_a_missing_table_is_not_found(store: Store) -> None:
    with pytest.raises(TableNotFound):
        store.run(CreateBackup(table="Nowhere", name="before"))
