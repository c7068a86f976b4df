"""`holdfast serve`: the DynamoDB endpoint alone, in front of the embedded tables store."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.credentials import read_credentials
from holdfast.cli.extras import require
from holdfast.cli.misuse import CalledWrongly
from holdfast.errors import SettingsError, StoreFileError
from holdfast.settings import PORT_MAX, TABLES_FILE_NAME, Settings


def parsed_port(text: str) -> int:
    """What --port was given, told in our words if it is none."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(PORT_MAX))
    if not is_number or int(text) > PORT_MAX:
        raise CalledWrongly(
            f"--port {text} is no port: give a number from 1 to {PORT_MAX}, or 0 for any free one."
        )
    return int(text)


def parsed_seconds(text: str) -> float:
    """What --index-lag was given, told in our words if it is no time."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise CalledWrongly(f"--index-lag {text} is no time: give seconds, 0 or more, such as 0.5.")
    return seconds


def serve(
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", parser=parsed_port, metavar="PORT", help="The port to listen on; 0 takes a free one."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Keep the tables in DIR/tables.db.")
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep the tables in memory; they end with the process.")
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option("--credentials", metavar="FILE", help="Who may call: KEY SECRET lines, or TOML."),
    ] = None,
    throttle: Annotated[
        float, typer.Option("--throttle", min=0, max=1, help="Throttle this share of item operations.")
    ] = 0.0,
    conflicts: Annotated[
        float, typer.Option("--conflicts", min=0, max=1, help="Make this share of writes conflict.")
    ] = 0.0,
    index_lag: Annotated[
        float,
        typer.Option(
            "--index-lag",
            parser=parsed_seconds,
            metavar="SECONDS",
            help="Let global indexes follow their table so much later.",
        ),
    ] = 0.0,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Repeat the same run of throttling and conflicts.")
    ] = None,
) -> None:
    """Serve DynamoDB's protocol over HTTP, for boto3 and the AWS CLI unmodified."""
    if memory and data is not None:
        raise CalledWrongly("--memory and --data exclude each other: give the one you mean.")
    require("serve", "serve")
    from holdfast.stores.tables.embedded import Faults
    from holdfast.wire.server import serve as serve_wire

    settings = Settings.load()
    in_memory = memory or (data is None and settings.tables_in_memory)
    callers = read_credentials(credentials or settings.credentials_file)
    with nullcontext() if in_memory else _made(data or settings.tables_directory) as folder:
        serve_wire(
            host=settings.serve_host if host is None else host,
            port=settings.serve_port if port is None else port,
            data=folder,
            memory=in_memory,
            credentials=callers,
            faults=Faults(throttled=throttle, conflicts=conflicts, index_lag_s=index_lag, seed=seed)
            if throttle or conflicts or index_lag
            else None,
        )


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """The first start on a new machine finds no folder: it is made, and taken away again if nothing starts."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _remove_empty(new)
        raise SettingsError(
            f"The data folder {folder} cannot be made ({error.strerror}): name another with --data."
        ) from error
    if (folder / TABLES_FILE_NAME).is_dir():
        raise SettingsError(
            f"{folder / TABLES_FILE_NAME} is a folder, where the file of the tables has its place: "
            "move it away, or name another data folder with --data."
        )
    try:
        yield folder
    except BaseException as error:
        _remove_empty(new)
        if isinstance(error, StoreFileError):
            error.add_note("--data names another folder to keep tables in.")
        raise


def _remove_empty(folders: list[Path]) -> None:
    """The innermost comes first. One that holds something stays, and so do those around it."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
