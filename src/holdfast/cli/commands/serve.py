"""`holdfast serve`: the DynamoDB endpoint alone, in front of the embedded tables store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.credentials import read_credentials
from holdfast.errors import SettingsError
from holdfast.settings import Settings


def serve(
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 takes a free one."),
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
    seed: Annotated[
        int | None, typer.Option("--seed", help="Repeat the same run of throttling and conflicts.")
    ] = None,
) -> None:
    """Serve DynamoDB's protocol over HTTP, for boto3 and the AWS CLI unmodified."""
    from holdfast.stores.tables.embedded import Faults
    from holdfast.wire.server import serve as serve_wire

    if memory and data is not None:
        raise SettingsError("--memory and --data exclude each other: give the one you mean.")
    settings = Settings.load()
    in_memory = memory or (data is None and settings.tables_in_memory)
    serve_wire(
        host=settings.serve_host if host is None else host,
        port=settings.serve_port if port is None else port,
        data=None if in_memory else _made(data or settings.tables_directory),
        memory=in_memory,
        credentials=read_credentials(credentials or settings.credentials_file),
        faults=Faults(throttled=throttle, conflicts=conflicts, seed=seed) if throttle or conflicts else None,
    )


def _made(folder: Path) -> Path:
    """The first start on a new machine finds no folder: it is made rather than asked for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The data folder {folder} cannot be made ({error.strerror}): name another with --data."
        ) from error
    return folder
