"""`holdfast serve`: serve the DynamoDB endpoint alone, in front of the embedded tables store."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.arguments.credentials import read_credentials
from holdfast.cli.extras import require_extras
from holdfast.cli.processes.production import list_endpoint_problems, require_production_settings
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import TABLES_FILE_NAME, Settings
from holdfast.core.disk import make_private_folder
from holdfast.core.errors import SettingsError, StoreFileError
from holdfast.core.limits import MAX_PORT


def parse_port(text: str) -> int:
    """Parse the value of --port. Raise `UsageError` if it is not a port."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PORT))
    if not is_number or int(text) > MAX_PORT:
        raise UsageError(
            f"Invalid --port {text}: expected a number from 1 to {MAX_PORT}, or 0 for a free port."
        )
    return int(text)


def parse_seconds(text: str) -> float:
    """Parse the value of --index-lag. Raise `UsageError` if it is not a finite number of at least 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UsageError(f"Invalid --index-lag {text}: expected seconds, 0 or more, such as 0.5.")
    return seconds


def serve(
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", parser=parse_port, metavar="PORT", help="The port to listen on; 0 for a free one."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Keep the tables in DIR/tables.db.")
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep the tables in memory, until the process ends.")
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option(
            "--credentials", metavar="FILE", help="Credentials of callers: KEY SECRET lines, or TOML."
        ),
    ] = None,
    throttle: Annotated[
        float,
        typer.Option("--throttle", min=0, max=1, help="Throttle this share (0 to 1) of item operations."),
    ] = 0.0,
    conflicts: Annotated[
        float, typer.Option("--conflicts", min=0, max=1, help="Make this share (0 to 1) of writes conflict.")
    ] = 0.0,
    index_lag: Annotated[
        float,
        typer.Option(
            "--index-lag",
            parser=parse_seconds,
            metavar="SECONDS",
            help="Delay updates of global secondary indexes by this long.",
        ),
    ] = 0.0,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Make throttling and conflicts repeatable.")
    ] = None,
) -> None:
    """Serve DynamoDB's protocol over HTTP. boto3 and the AWS CLI work unmodified."""
    if memory and data is not None:
        raise UsageError("--memory and --data exclude each other: give one of them.")
    require_extras("serve", "serve")
    from holdfast.stores.tables.embedded import EngineFaults
    from holdfast.wire.http.server import serve as serve_wire

    settings = Settings.load()
    in_memory = memory or (data is None and settings.has_memory_tables)
    callers = read_credentials(credentials or settings.credentials_file)
    require_production_settings(
        settings, list_endpoint_problems(settings, has_credentials=bool(callers), in_memory=in_memory)
    )
    with nullcontext() if in_memory else _create_folder(data or settings.tables_directory) as folder:
        serve_wire(
            host=settings.serve_host if host is None else host,
            port=settings.serve_port if port is None else port,
            data=folder,
            memory=in_memory,
            credentials=callers,
            allowed_hosts=settings.host_names,
            allowed_origins=settings.origins,
            faults=EngineFaults(throttled=throttle, conflicts=conflicts, index_lag_s=index_lag, seed=seed)
            if throttle or conflicts or index_lag
            else None,
            health_timeout_s=settings.health_timeout_s,
        )


@contextmanager
def _create_folder(folder: Path) -> Iterator[Path]:
    """Create the folder and its parents; remove the new ones again if the block raises and they are empty."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        make_private_folder(folder)
    except OSError as error:
        _remove_empty_folders(new)
        raise SettingsError(
            f"Failed to create the data folder {folder} ({error.strerror}): choose another with --data."
        ) from error
    if (folder / TABLES_FILE_NAME).is_dir():
        raise SettingsError(
            f"{folder / TABLES_FILE_NAME} is a folder, but must be a file: "
            "move it, or choose another data folder with --data."
        )
    try:
        yield folder
    except BaseException as error:
        _remove_empty_folders(new)
        if isinstance(error, StoreFileError):
            error.add_note("Choose another data folder with --data.")
        raise


def _remove_empty_folders(folders: list[Path]) -> None:
    """Remove the folders in this order, innermost first. Stop at the first that is not empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
