"""`holdfast restore`: a table as it was at a second or as a backup holds it, in a new table or in its own place."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.misuse import CalledWrongly
from holdfast.errors import BackupNotFound, RecoveryUnavailable, SettingsError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.cli.table_names import NamedTables
    from holdfast.operations.tables import BackupName
    from holdfast.runtime import PutBack, Stores

EXIT_CONTENDED = 1
HELD_AGAIN: Final = (
    "What comes back to a hold queue may have been done since: look through what waits, and cancel what was done, before "
    "what executes it starts again."
)
BACKUP: Final = re.compile(r"(arn:[^/]+:table/)?((?P<table>[a-zA-Z0-9_.-]+)/backup/)?(?P<id>[a-zA-Z0-9-]+)")


def restore(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to bring back.")],
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="As 2026-02-04T01:00:00Z, -90s or -2h.")
    ] = None,
    from_backup: Annotated[
        str | None, typer.Option("--from-backup", metavar="BACKUP", help="As --list tells it, or its ARN.")
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NAME", help="The new table that is made.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Bring the table itself back, item by item.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be done; change no item.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a restore in place.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Restore a table to a second or from a backup, into a new table or in place."""
    from holdfast.cli.table_names import named_table

    if (at is None) == (from_backup is None):
        raise CalledWrongly("Say what to go back to: --at TIME or --from-backup BACKUP, one of them.")
    if into is not None and in_place:
        raise CalledWrongly("--into makes a new table and --in-place changes the old one: name one of them.")
    settings = Settings.load()
    if settings.tables_in_memory:
        raise SettingsError("The setting `tables` keeps them in memory: there is nothing to restore.")
    chosen = named_table(table, settings)
    state = _moment(at, settings) if at is not None else _backup(from_backup or "", chosen.names[0])
    target = None if into is None else named_table(into, settings).names[0]
    asked = _Asked(chosen, state, target, dry_run, as_json, settings)
    if in_place and not dry_run:
        _require_consent(asked, yes)
    asyncio.run(asked.answered_in_place() if in_place else asked.answered_beside())


def _moment(text: str, settings: Settings) -> float:
    from holdfast.cli.moments import moment_of

    return moment_of(text, settings.clock.now())


def _backup(text: str, table: str) -> BackupName:
    """An ARN, `TABLE/backup/ID` as it is listed, or the id alone."""
    from holdfast.operations.tables import BackupName

    found = BACKUP.fullmatch(text)
    if found is None:
        raise CalledWrongly(f"{text!r} names no backup: `holdfast backup --list` tells how each is named.")
    return BackupName(found["table"] or table, found["id"], text if text.startswith("arn:") else "")


def _require_consent(asked: _Asked, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise CalledWrongly(
            "A restore in place changes and deletes items: add --yes, or look first with --dry-run."
        )
    typer.confirm(
        f"Bring {asked.table} back to {asked.shown_state}? What was written since is taken away: stop what writes "
        f"to it first. {HELD_AGAIN}",
        abort=True,
        err=True,
    )


@dataclass(frozen=True)
class _Asked:
    """One call of the command."""

    chosen: NamedTables
    state: float | BackupName
    target: str | None
    dry_run: bool
    as_json: bool
    settings: Settings

    @property
    def table(self) -> str:
        return self.chosen.names[0]

    @property
    def shown_state(self) -> str:
        from holdfast.runtime.restoring import shown_moment

        return shown_moment(self.state) if isinstance(self.state, float) else f"the backup {self.state}"

    async def answered_beside(self) -> None:
        """Into a new table; on a dry run only what stands in the way is told."""
        from holdfast.cli.showing import progress_bar
        from holdfast.runtime import restore
        from holdfast.runtime.restoring import check_restorable, name_beside

        into = self.target or name_beside(self.table, self.state, "restored")
        items: int | None = None
        with progress_bar(shown=not self.as_json) as progress:
            async with self._stores() as stores:
                with _told_where_backups_are():
                    if self.dry_run:
                        await check_restorable(stores, self.table, into, self.state)
                    else:
                        made = await restore(stores, self.table, into, self.state, progress=progress)
                        items = made.item_count
        self._show_beside(into, items)

    async def answered_in_place(self) -> None:
        from holdfast.cli.showing import progress_bar
        from holdfast.runtime import restore_in_place

        with progress_bar(shown=not self.as_json) as progress:
            async with self._stores() as stores:
                with _told_where_backups_are():
                    done = await restore_in_place(
                        stores, self.table, self.state, dry_run=self.dry_run, progress=progress
                    )
                undo_at = await self._undo_at(stores, done)
        self._show_in_place(done, undo_at)
        if not done.is_complete:
            typer.echo(
                f"holdfast: items left as they are, because others wrote them meanwhile: {done.contended:,}. Stop what "
                f"writes to {self.table}, and run it again with {self._again()}.",
                err=True,
            )
            raise typer.Exit(EXIT_CONTENDED)

    def _stores(self) -> Stores:
        from holdfast.runtime import open_stores

        return open_stores(self.chosen.system, self.settings)

    async def _undo_at(self, stores: Stores, done: PutBack) -> str | None:
        """The moment before the first change, where the table can be brought back to it."""
        from holdfast.runtime import recovery_window
        from holdfast.runtime.restoring import shown_moment

        if self.dry_run or not done.changed:
            return None
        try:
            window = await recovery_window(stores, self.table)
        except RecoveryUnavailable:
            return None
        return shown_moment(done.began_at) if done.began_at >= window.earliest else None

    def _again(self) -> str:
        """The state in words that mean the same later: a time that counts back from now would not."""
        return (
            f"--from-backup {self.state}" if not isinstance(self.state, float) else f"--at {self.shown_state}"
        )

    def _told(self) -> dict[str, Any]:
        is_moment = isinstance(self.state, float)
        return {
            "table": self.table,
            "at": self.shown_state if is_moment else None,
            "backup": None if is_moment else str(self.state),
            "dry_run": self.dry_run,
        }

    def _show_beside(self, into: str, items: int | None) -> None:
        from holdfast.cli.showing import console, print_json

        if self.as_json:
            print_json(self._told() | {"into": into, "items": items})
            return
        out = console()
        if self.dry_run:
            out.print(f"{self.table} can be restored to {self.shown_state}, into {into}.", markup=False)
            return
        out.print(f"{self.table} as of {self.shown_state} is in {into}.", markup=False, soft_wrap=True)
        out.print("The new table has no stream, no lifetime and no recovery until somebody switches them on.")

    def _show_in_place(self, done: PutBack, undo_at: str | None) -> None:
        from holdfast.cli.showing import print_json

        if self.as_json:
            examples = [{"what": each.what, "key": _plain(each.key)} for each in done.examples]
            counts = {"restored": done.restored, "missing": done.missing, "different": done.different}
            counts |= {"deleted": done.deleted, "unchanged": done.unchanged, "contended": done.contended}
            print_json(self._told() | counts | {"undo_at": undo_at, "examples": examples})
        else:
            self._print_in_place(done, undo_at)

    def _print_in_place(self, done: PutBack, undo_at: str | None) -> None:
        from holdfast.cli.showing import console, number, plain_table

        out = console()
        verbs = ("to put back", "to delete") if self.dry_run else ("put back", "deleted")
        out.print(f"{self.table} and {self.shown_state}", markup=False, soft_wrap=True)
        shown = plain_table("items", number(""))
        shown.add_row(f"{verbs[0]}, missing", f"{done.missing:,}")
        shown.add_row(f"{verbs[0]}, different", f"{done.different:,}")
        shown.add_row(verbs[1], f"{done.deleted:,}")
        shown.add_row("unchanged", f"{done.unchanged:,}")
        out.print(shown)
        if self.dry_run:
            for each in done.examples:
                out.print(f"  {each.what}: {_plain(each.key)}", markup=False, soft_wrap=True)
        if done.restored and not self.dry_run:
            out.print(HELD_AGAIN, markup=False, soft_wrap=True)
        if undo_at is not None:
            again = f"holdfast restore {self.table} --at {undo_at} --in-place"
            out.print(f"`{again}` takes it back.", markup=False, soft_wrap=True)


@contextmanager
def _told_where_backups_are() -> Iterator[None]:
    try:
        yield
    except (BackupNotFound, RecoveryUnavailable) as error:
        error.add_note("`holdfast backup --list` tells the backups that there are.")
        raise


def _plain(key: Mapping[str, Any]) -> dict[str, str]:
    return {name: value.hex() if isinstance(value, bytes) else str(value) for name, value in key.items()}
