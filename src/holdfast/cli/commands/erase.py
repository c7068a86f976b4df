"""`holdfast erase`: all that belongs to one person or case is deleted, with a proof of what remains and until when."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.misuse import CalledWrongly
from holdfast.errors import SettingsError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.guarantees import Erasure
    from holdfast.model.system import System


def erase(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system that holds the data.")],
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The id of the person or case.")],
    kind: Annotated[
        str | None, typer.Option("--kind", help="What the id is of, where the system knows several kinds.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    no_compact: Annotated[
        bool, typer.Option("--no-compact", help="Do not write the file anew: quicker, and less is gone.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where the proof is written as well.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the proof.")] = False,
) -> None:
    """Erase a subject: its items, what logs and backups hold of them, and a proof that names what remains."""
    from holdfast.cli.showing import print_json
    from holdfast.model.system import installed_system

    found = installed_system(system)
    settings = Settings.load()
    if settings.tables_in_memory:
        raise SettingsError("The setting `tables` keeps them in memory: there is nothing to erase from.")
    if not dry_run:
        _require_consent(found, subject, yes)
    done = asyncio.run(_erased(found, settings, subject, kind, dry_run, not no_compact))
    if out is not None:
        _write(out, done)
    if as_json:
        print_json(done.proof)
    else:
        _print_erasure(done, out)


def _require_consent(system: System, subject: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise CalledWrongly("What is erased cannot be brought back: add --yes, or look first with --dry-run.")
    typer.confirm(f"Erase {subject} from {system.name}? It cannot be brought back.", abort=True, err=True)


async def _erased(
    system: System, settings: Settings, subject: str, kind: str | None, dry_run: bool, compact: bool
) -> Erasure:
    from holdfast.guarantees import erase as erased
    from holdfast.runtime import open_stores

    async with open_stores(system, settings) as stores:
        return await erased(system, stores, subject, kind=kind, dry_run=dry_run, compact=compact)


def _write(out: Path, done: Erasure) -> None:
    try:
        out.write_text(json.dumps(done.proof, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"The erasure is done, but its proof cannot be written to {out} ({error.strerror}): "
            "run it again with another --out; what is gone already is no error."
        ) from error


def _print_erasure(done: Erasure, out: Path | None) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table

    shown = console()
    table = plain_table(
        "where", number("to delete" if done.is_trial else "deleted"), title=f"{done.system}: {done.kind}"
    )
    for name, count in done.deleted.items():
        table.add_row(escape(name), f"{count:,}")
    for name, count in done.log_records.items():
        table.add_row(f"change log of {escape(name)}", f"{count:,}")
    for name, count in done.backup_items.items():
        table.add_row(f"backup, {escape(name)}", f"{count:,}")
    shown.print(table)
    left = plain_table("remains", "what", "until")
    for each in done.remains:
        left.add_row(escape(each.where), escape(each.what), escape(each.until))
    if done.remains:
        shown.print(left)
    where = "" if out is None else f", in {out}"
    shown.print(f"proof: sha256 {done.proof['sha256']}{where}", markup=False)
