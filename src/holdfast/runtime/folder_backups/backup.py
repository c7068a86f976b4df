"""Back up every embedded store at one moment, into a folder that appears when it is complete.

No transaction spans two stores, and an outbox bridges them: a state that has all stores at the same moment is
one that a power failure could have left, and every guarantee continues from that. Decision 0021 says why no
order of copies made one after the other would do.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import msgspec

from holdfast.config.settings import FILE_SCHEME, Settings
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.disk import open_private, require_posix
from holdfast.core.errors import DataDamaged, SettingsError
from holdfast.core.progress import Progress, ignore_progress
from holdfast.core.store_marker import read_marker
from holdfast.runtime.folder_backups.manifest import (
    Manifest,
    StoreEntry,
    format_created_at,
    read_manifest,
    seal_files,
    write_manifest,
)
from holdfast.runtime.folder_backups.sources import (
    ABSENT_REASON,
    ENGINES,
    OBJECTS,
    SkippedStore,
    Sources,
    find_sources,
    refuse_inside,
)
from holdfast.runtime.folder_backups.staged_folder import stage_folder
from holdfast.runtime.folder_backups.store_copies import ObjectsCopy, StoreCopy, open_store_copy

STAGING_KIND = "partial"
DAMAGE_ADVICE = (
    "There is no new backup. Restore what is damaged from an earlier one, or delete it, and run this again. "
    "To keep the files as they are, stop every process and copy the folder itself."
)


def back_up_folder(
    settings: Settings, target: Path, *, with_keys: bool = False, progress: Progress = ignore_progress
) -> Manifest:
    """Back up the stores that the settings name into a new folder, and return its manifest.

    Other processes keep writing. Raise `SettingsError` for an unusable target, `StoreFull` if the disk is
    full, and the error of a store that is damaged.
    """
    require_posix("A backup of embedded stores", "services, which have backups of their own")
    sources = find_sources(settings)
    refuse_inside(target, sources)
    _check_keys(settings, with_keys)
    with stage_folder(target, STAGING_KIND) as staged, ExitStack() as opened:
        try:
            manifest = _fill(staged.path, settings, sources, opened, progress)
        except DataDamaged as error:
            error.add_note(DAMAGE_ADVICE)
            raise
        manifest = _add_files(manifest, staged.path, settings, with_keys, progress)
        write_manifest(staged.path, manifest)
        staged.publish()
    return read_manifest(target)


def _check_keys(settings: Settings, with_keys: bool) -> None:
    """Raise `SettingsError` if the keys are to be copied from a service."""
    if with_keys and not settings.keys.startswith(FILE_SCHEME):
        raise SettingsError(
            f"The keys are in a service ({settings.keys}) and cannot be copied. Leave out --with-keys: the "
            "restored folder uses the same service."
        )


def _fill(
    folder: Path, settings: Settings, sources: Sources, opened: ExitStack, progress: Progress
) -> Manifest:
    """Copy every store that has data, all at the same moment."""
    copies: dict[str, StoreCopy] = {}
    skipped = list(sources.skipped)
    for store, path in sources.paths.items():
        copy = open_store_copy(store, path, folder, settings, progress)
        if copy is None:
            skipped.append(SkippedStore(store, ENGINES[store][0], ABSENT_REASON))
        else:
            opened.callback(copy.close)
            copies[store] = copy
    if not copies:
        named = ", ".join(map(str, sources.paths.values())) or "the settings name no embedded store"
        raise SettingsError(f"There is nothing to back up ({named}). Name a data folder with --data.")
    for copy in copies.values():
        copy.prepare()
    _freeze_all(copies)
    created_at = format_created_at(SYSTEM_CLOCK.now())
    entries = _write_all(copies)
    objects = copies.get(OBJECTS)
    keys = objects.keys if isinstance(objects, ObjectsCopy) else {}
    return Manifest(created_at=created_at, stores=entries, skipped=tuple(skipped), keys=keys)


def _write_all(copies: dict[str, StoreCopy]) -> dict[str, StoreEntry]:
    """Write every copy and return the entries. Raise `DataDamaged` for all damaged stores together."""
    entries: dict[str, StoreEntry] = {}
    damages: list[DataDamaged] = []
    for store, copy in copies.items():
        try:
            entries[store] = copy.write()
        except DataDamaged as error:
            damages.append(error)
    if len(damages) == 1:
        raise damages[0]
    if damages:
        raise DataDamaged(" ".join(each.message for each in damages)) from damages[0]
    return entries


def _freeze_all(copies: dict[str, StoreCopy]) -> None:
    """Fix the moment of every store while all writers wait.

    The objects follow when the others may write again: none of them is deleted or replaced until then.
    """
    quick = [copy for store, copy in copies.items() if store != OBJECTS]
    slow = [copy for store, copy in copies.items() if store == OBJECTS]
    with ExitStack() as objects_held:
        for copy in slow:
            objects_held.enter_context(copy.hold())
        with ExitStack() as held:
            for copy in quick:
                held.enter_context(copy.hold())
            for copy in quick:
                copy.freeze()
        for copy in slow:
            copy.freeze()


def _add_files(
    manifest: Manifest, folder: Path, settings: Settings, with_keys: bool, progress: Progress
) -> Manifest:
    """Add the keys, if they are wanted, and the run clock, then list every file.

    The clock is read after the moment of the backup, so that no stored time is later than it.
    """
    key_file = _copy_file(settings.keys_file, folder) if with_keys else None
    clock = _copy_file(settings.base / settings.run_clock, folder) if settings.run_clock else None
    files = seal_files(folder, progress)
    return msgspec.structs.replace(
        manifest, key_file=key_file, key_file_id=read_marker(settings.keys_file), run_clock=clock, files=files
    )


def _copy_file(source: Path, folder: Path) -> str | None:
    """Copy a single file under its own name and return the name; None if it does not exist."""
    if not source.exists():
        return None
    with open(folder / source.name, "xb", opener=open_private) as file, source.open("rb") as content:
        shutil.copyfileobj(content, file)
    return source.name
