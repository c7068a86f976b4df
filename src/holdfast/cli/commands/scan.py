"""`holdfast scan`: search data files, queues, objects and logs for data that must not be in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import FILE_SCHEME, IN_MEMORY, SQLITE_SCHEME, Settings
from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.guarantees import Finding

EXIT_FOUND = 1


def scan(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files and folders. Default: the configured embedded stores."),
    ] = None,
    needle: Annotated[
        list[str] | None,
        typer.Option("--needle", metavar="TEXT", help="A text that must not occur; repeatable."),
    ] = None,
    needles: Annotated[
        Path | None, typer.Option("--needles", metavar="FILE", help="A file of such texts, one per line.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="TEXT", help="Allow a value such as *@shop.example; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Search files for personal data and given texts; exit 1 if one is found.

    The free pages and logs of database files are searched too.
    """
    from holdfast.cli.output.console import print_json, progress_bar
    from holdfast.guarantees import scan_files

    searched = list(paths or _list_configured_folders(Settings.load()))
    texts = [*(needle or ()), *(_read_lines(needles) if needles else ())]
    if "" in texts:
        raise UsageError("Invalid --needle '': an empty text occurs everywhere. Give a text.")
    with progress_bar(enabled=not as_json) as show:
        findings = scan_files(searched, needles=texts, allow=allow or (), progress=show)
    if as_json:
        print_json([asdict(each) for each in findings])
    else:
        _print_findings(searched, findings)
    if findings:
        raise typer.Exit(EXIT_FOUND)


def _list_configured_folders(settings: Settings) -> list[Path]:
    """Return the existing folders of the embedded stores, without folders inside one another.

    Raise `SettingsError` if there is none.
    """
    folders = []
    if settings.has_embedded_tables and not settings.has_memory_tables:
        folders.append(settings.tables_directory)
    if settings.queues.startswith(SQLITE_SCHEME) and settings.queues != IN_MEMORY:
        folders.append(settings.queues_file.parent)
    if settings.objects.startswith(FILE_SCHEME):
        folders.append(settings.objects_directory)
    existing = list(dict.fromkeys(folder.resolve() for folder in folders if folder.exists()))
    if not existing:
        raise SettingsError("The configured stores have no data folder: give the files or folders to scan.")
    return [folder for folder in existing if not any(other in folder.parents for other in existing)]


def _read_lines(file: Path) -> list[str]:
    """Return the lines that are not empty. Raise `SettingsError` if the file cannot be read."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"Failed to read the needles in {file}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"The needles in {file} are not UTF-8 text.") from error
    return [line for line in lines if line]


def _print_findings(searched: Sequence[Path], findings: Sequence[Finding]) -> None:
    """Print file, offset, kind and masked sample of each finding, and how many there are."""
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column

    out = get_console()
    if findings:
        table = build_table("file", number_column("at byte"), "kind", "finding", "spelling")
        for each in findings:
            table.add_row(
                escape(each.file), f"{each.offset:,}", each.kind, escape(each.sample), each.spelling
            )
        out.print(table)
    paths = ", ".join(str(path) for path in searched)
    out.print(f"{len(findings) or 'nothing'} found in {paths}", markup=False)
