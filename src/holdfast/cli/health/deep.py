"""The deep checks of `holdfast doctor --deep`: read everything that is stored, and verify it.

Each check returns what is wrong, one line each, and names the item, message or object. Stores that are
services verify their own data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast.cli.extras import require_extras
from holdfast.cli.health.stores import StoreHealth
from holdfast.config.settings import FILE_SCHEME, Settings
from holdfast.core.errors import HoldfastError
from holdfast.core.progress import Progress

MAX_PROBLEMS: Final = 1000


def deepen(health: StoreHealth, settings: Settings, progress: Progress) -> StoreHealth:
    """Return the health of a store after everything in it was verified. A service stays as it is."""
    check = _CHECKS.get((health.store, health.engine))
    if check is None:
        return health
    try:
        problems = check(settings, progress)
    except HoldfastError as error:
        problems = [error.message]
    if not problems and not health.ok:
        return health
    if not problems:
        return replace(health, detail=f"{health.detail}; everything was read and verified")
    shown = "; ".join(problems[:MAX_PROBLEMS])
    more = f"; and {len(problems) - MAX_PROBLEMS:,} more" if len(problems) > MAX_PROBLEMS else ""
    detail = shown + more if not health.ok else f"{health.detail}; damaged: {shown}{more}"
    return replace(health, ok=False, detail=detail)


def _check_tables(settings: Settings, progress: Progress) -> list[str]:
    from holdfast.stores.tables.embedded.storage.verification import verify_tables

    return _verify_existing(settings.tables_file, lambda path: verify_tables(path, progress))


def _check_queues(settings: Settings, progress: Progress) -> list[str]:
    from holdfast.stores.queues.embedded.verification import verify_queues

    return _verify_existing(settings.queues_file, lambda path: verify_queues(path, progress))


def _verify_existing(file: Path, verify: Callable[[str], list[str]]) -> list[str]:
    """Verify a database, unless it does not exist or is empty: the quick check has looked at that."""
    return verify(str(file.resolve())) if file.is_file() and file.stat().st_size else []


def _check_objects(settings: Settings, progress: Progress) -> list[str]:
    """Verify the keys and the objects. No key file is created."""
    from holdfast.security.ciphers import FileCipher

    folder = settings.objects_directory
    has_key_file = settings.keys.startswith(FILE_SCHEME)
    cipher = FileCipher(settings.keys_file)
    if has_key_file and settings.keys_file.exists():
        cipher.current_key_id  # noqa: B018  raises for a key file that is damaged or readable by others
    if not folder.is_dir():
        return []
    require_extras("doctor", "objects")
    from holdfast.runtime.factory import open_cipher
    from holdfast.stores.objects.local.verification import verify_objects

    return verify_objects(folder, cipher if has_key_file else open_cipher(settings), progress).problems


def _check_sql(settings: Settings, progress: Progress) -> list[str]:
    folder = settings.sql_directory
    if folder is None or not folder.is_dir():
        return []
    require_extras("doctor", "sql")
    from holdfast.stores.sql.postgres.verification import verify_cluster

    progress(f"{folder} (pages)", 0, 1)
    problems = verify_cluster(folder)
    progress(f"{folder} (pages)", 1, 1)
    return problems


_CHECKS: Final = {
    ("tables", "sqlite"): _check_tables,
    ("queues", "sqlite"): _check_queues,
    ("objects", "local"): _check_objects,
    ("sql", "embedded"): _check_sql,
}
