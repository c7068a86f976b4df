"""The `holdfast` command: its global options, its commands by name, and how it prints errors.

`main` is the entry point. A `HoldfastError` carries a sentence for the user and becomes one line;
any other exception is a bug in Holdfast and keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast import __version__
from holdfast.cli.commands import (
    backup,
    bench,
    check,
    cost,
    demo,
    docs,
    doctor,
    erase,
    export_table,
    flows,
    iac,
    iam,
    import_table,
    indexes,
    mcp,
    migrate,
    new,
    outbox,
    patterns,
    queues,
    restore,
    retention,
    run,
    sample,
    scan,
    serve,
    systems,
    tables,
    up,
    why,
)
from holdfast.cli.system_commands import HoldfastGroup
from holdfast.cli.usage_error import UsageError
from holdfast.core.errors import HoldfastError
from holdfast.core.terminal import escape_control_chars

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="holdfast",
    # Adds a group of commands for each installed system.
    cls=HoldfastGroup,
    help="Embedded, durable stores with DynamoDB's semantics, and the systems built on them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# To add a command, write its module, register it in its group and describe it in docs/reference/commands.md.
GROUPS: Final[Mapping[str, Mapping[str, Callable[..., None]]]] = {
    "Design": {
        "new": new.new,
        "systems": systems.systems,
        "tables": tables.tables,
        "patterns": patterns.patterns,
        "check": check.check,
        "cost": cost.cost,
        "docs": docs.docs,
        "iac": iac.iac,
        "iam": iam.iam,
    },
    "Run": {
        "demo": demo.demo,
        "sample": sample.sample,
        "up": up.up,
        "run": run.run,
        "serve": serve.serve,
        "mcp": mcp.mcp,
    },
    "Data": {
        "import": import_table.import_table,
        "export": export_table.export_table,
        "indexes": indexes.indexes,
        "migrate": migrate.migrate,
        "backup": backup.backup,
        "restore": restore.restore,
        "scan": scan.scan,
        "retention": retention.retention,
        "erase": erase.erase,
    },
    "Operate": {
        "doctor": doctor.doctor,
        "queues": queues.queues,
        "outbox": outbox.outbox,
        "flows": flows.flows,
        "why": why.why,
        "bench": bench.bench,
    },
}
for group, commands in GROUPS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=group)(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        app(arguments, prog_name="holdfast")
    except HoldfastError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        sys.stderr.write(f"holdfast: {_format_error(error)}\n")
        sys.exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _format_error(error: HoldfastError) -> str:
    """Return the error's message and notes on one line, with control characters escaped."""
    return escape_control_chars(" ".join(" ".join([error.message, *getattr(error, "__notes__", [])]).split()))


def _print_version(requested: bool) -> None:
    """Print the version and end the command if the option was given."""
    if requested:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def _apply_global_options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback when a command fails.", envvar="HOLDFAST_DEBUG"),
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", help="Read this settings file.", envvar="HOLDFAST_SETTINGS"),
    ] = None,
) -> None:
    # Both are set in the environment, so that child processes inherit them.
    if debug:
        os.environ["HOLDFAST_DEBUG"] = "1"
    if settings is not None:
        os.environ["HOLDFAST_SETTINGS"] = str(settings)
