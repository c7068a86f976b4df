"""Output about backups of a data folder: what the manifest of one says, as a table, a sentence or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.runtime.folder_backups import Manifest

# What the counts of a store count.
UNITS: Final = {"tables": "items", "queues": "messages", "objects": "objects", "sql": "rows"}


def build_manifest_json(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest for a program, with totals instead of single files."""
    return {
        "created_at": manifest.created_at,
        "holdfast": manifest.holdfast,
        "bytes": manifest.bytes,
        "stores": [
            {
                "store": store,
                "engine": entry.engine,
                "id": entry.id,
                "bytes": _sum_bytes(manifest, store),
                "counts": [{"name": name, "count": count} for name, count in entry.counts.items()],
            }
            for store, entry in manifest.stores.items()
        ],
        "skipped": [
            {"store": each.store, "engine": each.engine, "reason": each.reason} for each in manifest.skipped
        ],
        "has_keys": manifest.key_file is not None,
        "encrypted_objects": sum(manifest.keys.values()),
    }


def print_manifest_stores(out: Console, manifest: Manifest) -> None:
    """Print a table of the stores in a backup."""
    from holdfast.cli.output.console import build_table, number_column

    table = build_table("store", "engine", number_column("bytes"), number_column("content"))
    for store, entry in manifest.stores.items():
        count = f"{sum(entry.counts.values()):,} {UNITS[store]}"
        table.add_row(store, entry.engine, f"{_sum_bytes(manifest, store):,}", count)
    out.print(table)


def format_unreadable(manifest: Manifest) -> str:
    """Say what cannot be read without the keys."""
    objects = sum(manifest.keys.values())
    return (
        f"It does not contain the keys: without them, {objects:,} object{'' if objects == 1 else 's'} and "
        "everything else that a system encrypts are unreadable."
    )


def _sum_bytes(manifest: Manifest, store: str) -> int:
    """Return the size of a store in the backup."""
    return sum(manifest.files[path].bytes for path in manifest.list_files(manifest.stores[store].path))
