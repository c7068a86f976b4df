"""`holdfast scan`: data files, queues, objects and logs searched for what should not be in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.misuse import CalledWrongly
from holdfast.errors import SettingsError
from holdfast.settings import FILE_SCHEME, IN_MEMORY, SQLITE_SCHEME, Settings

if TYPE_CHECKING:
    from holdfast.guarantees import Finding

EXIT_FOUND = 1


def scan(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...", help="Files and folders; the configured data where none is named."
        ),
    ] = None,
    needle: Annotated[
        list[str] | None, typer.Option("--needle", metavar="TEXT", help="A text that must not be there.")
    ] = None,
    needles: Annotated[
        Path | None, typer.Option("--needles", metavar="FILE", help="Such texts, one a line.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="TEXT", help="What may be there, as *@shop.example."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Search for personal data and given texts, in free pages and logs too; exit 1 if something is found."""
    from holdfast.cli.showing import print_json, progress_bar
    from holdfast.guarantees import scan_files

    places = list(paths or _configured(Settings.load()))
    texts = [*(needle or ()), *(_read_lines(needles) if needles else ())]
    if "" in texts:
        raise CalledWrongly("--needle is empty: an empty text is everywhere.")
    with progress_bar(shown=not as_json) as show:
        found = scan_files(places, needles=texts, allow=allow or (), progress=show)
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        _print_findings(places, found)
    if found:
        raise typer.Exit(EXIT_FOUND)


def _configured(settings: Settings) -> list[Path]:
    """The folders of the embedded stores, each once."""
    folders = []
    if settings.tables_embedded and not settings.tables_in_memory:
        folders.append(settings.tables_directory)
    if settings.queues.startswith(SQLITE_SCHEME) and settings.queues != IN_MEMORY:
        folders.append(settings.queues_file.parent)
    if settings.objects.startswith(FILE_SCHEME):
        folders.append(settings.objects_directory)
    there = list(dict.fromkeys(folder.resolve() for folder in folders if folder.exists()))
    if not there:
        raise SettingsError("The settings name no folder that has data: name the files or folders to scan.")
    return [folder for folder in there if not any(other in folder.parents for other in there)]


def _read_lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"The needles in {file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"The needles in {file} are not UTF-8.") from error
    return [line for line in lines if line]


def _print_findings(places: Sequence[Path], found: Sequence[Finding]) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table

    out = console()
    if found:
        table = plain_table("file", number("at byte"), "kind", "what", "spelled")
        for each in found:
            table.add_row(
                escape(each.file), f"{each.offset:,}", each.kind, escape(each.sample), each.spelling
            )
        out.print(table)
    told = ", ".join(str(place) for place in places)
    out.print(f"{len(found) or 'nothing'} found in {told}", markup=False)
