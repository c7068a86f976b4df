"""`holdfast erase`: delete everything that belongs to one person or case, and prove what remains.

The proof says where data remains and until when.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.guarantees import Erasure
    from holdfast.model.system import System


def erase(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system that holds the data.")],
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The id of the person or case.")],
    kind: Annotated[
        str | None, typer.Option("--kind", help="The kind of the id, if the system has several kinds.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only; delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    no_compact: Annotated[
        bool,
        typer.Option(
            "--no-compact", help="Do not compact the file: faster, but deleted data may stay in unused pages."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write the proof to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the proof as JSON.")] = False,
) -> None:
    """Erase the items of a person or case, also from logs and backups.

    Print a proof of what was deleted and what remains.
    """
    from holdfast.cli.output.console import print_json
    from holdfast.model.system import load_system

    found = load_system(system)
    settings = Settings.load()
    if settings.has_memory_tables:
        raise SettingsError("The setting `tables` keeps the tables in memory: there is nothing to erase.")
    if not dry_run:
        _require_consent(found, subject, yes)
    erasure = asyncio.run(_erase(found, settings, subject, kind, dry_run, not no_compact))
    if out is not None:
        _write_proof(out, erasure)
    if as_json:
        print_json(erasure.proof)
    else:
        _print_erasure(erasure, out)


def _require_consent(system: System, subject: str, yes: bool) -> None:
    """Ask the user to confirm, unless `yes`. Raise `UsageError` without a terminal; abort if the user
    declines.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("An erasure cannot be undone: add --yes, or preview it with --dry-run.")
    typer.confirm(f"Erase {subject} from {system.name}? This cannot be undone.", abort=True, err=True)


async def _erase(
    system: System, settings: Settings, subject: str, kind: str | None, dry_run: bool, compact: bool
) -> Erasure:
    from holdfast.guarantees import erase as erase_subject
    from holdfast.runtime import open_stores

    async with open_stores(system, settings) as stores:
        return await erase_subject(system, stores, subject, kind=kind, dry_run=dry_run, compact=compact)


def _write_proof(out: Path, erasure: Erasure) -> None:
    """Write the proof as JSON. Raise `SettingsError` if that fails; the erasure is done then."""
    try:
        out.write_text(json.dumps(erasure.proof, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"The erasure is done, but writing its proof to {out} failed ({error.strerror}): "
            "run the command again with another --out. Repeating an erasure is safe."
        ) from error


def _print_erasure(erasure: Erasure, out: Path | None) -> None:
    """Print the counts of deleted items, log records and backup items, what remains, and the proof's hash."""
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column

    output = get_console()
    table = build_table(
        "where",
        number_column("to delete" if erasure.is_dry_run else "deleted"),
        title=f"{erasure.system}: {erasure.kind}",
    )
    for name, count in erasure.deleted.items():
        table.add_row(escape(name), f"{count:,}")
    for name, count in erasure.log_records.items():
        table.add_row(f"change log of {escape(name)}", f"{count:,}")
    for name, count in erasure.backup_items.items():
        table.add_row(f"backup, {escape(name)}", f"{count:,}")
    output.print(table)
    remaining = build_table("remains in", "what", "until")
    for each in erasure.remains:
        remaining.add_row(escape(each.where), escape(each.what), escape(each.until))
    if erasure.remains:
        output.print(remaining)
    where = "" if out is None else f", in {out}"
    output.print(f"proof: sha256 {erasure.proof['sha256']}{where}", markup=False)
