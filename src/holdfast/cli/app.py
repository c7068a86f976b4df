"""The `holdfast` command: its global options, its commands by name, and how it prints errors.

`main` is the entry point. A `HoldfastError` carries a sentence for the user and becomes one line;
any other exception is a bug in Holdfast and keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast import __version__
from holdfast.cli.deferred_command import DeferredCommand
from holdfast.cli.output.error_lines import format_error
from holdfast.cli.system_commands import HoldfastGroup
from holdfast.cli.usage_error import UsageError
from holdfast.core.errors import HoldfastError, InvalidArgument

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

COMMANDS_PACKAGE: Final = "holdfast.cli.commands"

# The commands by group: the module in `cli/commands`, whose function has the same name, and the first line of
# that function's docstring. The module is imported when the command runs. To add a command, write its module,
# list it here and describe it in docs/reference/commands.md.
GROUPS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Design": {
        "new": ("new", "Create a new system from a template, with tests."),
        "systems": ("systems", "List the installed systems and what each declares."),
        "tables": ("tables", "List the declared tables: keys, indexes, TTL, stream and stored name."),
        "patterns": ("patterns", "List the access patterns; exit 1 if a measured one fails."),
        "check": ("check", "Check the design of a system; exit 1 on an error."),
        "cost": ("cost", "Estimate a system's monthly cost on DynamoDB, SQS and S3."),
        "docs": ("docs", "Write a system's documentation: tables, entities, access patterns and components."),
        "iac": ("iac", "Write a system's tables, alarms and policies for CloudFormation or Terraform."),
        "iam": ("iam", "Write the IAM policies and database roles of a system's components."),
    },
    "Run": {
        "demo": ("demo", "Run the story of the tables engine and the story of each system."),
        "sample": (
            "sample",
            "Write a system's sample data into the configured stores. Every run writes the same data.",
        ),
        "up": (
            "up",
            "Start the DynamoDB endpoint, every installed system and the console, with all workers and "
            "sandboxes.",
        ),
        "run": (
            "run",
            "Run a system: its HTTP API, consumers and schedules. "
            "It creates missing tables, queues and buckets.",
        ),
        "serve": ("serve", "Serve DynamoDB's protocol over HTTP. boto3 and the AWS CLI work unmodified."),
        "mcp": ("mcp", "Serve a system to agents over MCP, on stdio or over HTTP."),
        "console": ("console", "Serve the web console over the installed systems, or keep its users."),
    },
    "Data": {
        "import": ("import_table", "Import a CSV file into a table."),
        "export": ("export_table", "Export a whole table to a CSV file."),
        "indexes": ("indexes", "Add missing indexes online, or report the status of each."),
        "migrate": ("migrate", "Migrate the SQL schemas, or run the live migration NAME."),
        "backup": ("backup", "Back up every store to another place, or single tables as they are now."),
        "restore": ("restore", "Restore a data folder from a backup, or a table to a point in time."),
        "scan": ("scan", "Search files for personal data and given texts; exit 1 if one is found."),
        "retention": ("retention", "List what is stored, where, and for how long."),
        "erase": ("erase", "Erase the items of a person or case, also from logs and backups."),
    },
    "Operate": {
        "doctor": ("doctor", "Check every configured store; exit 1 if one is unhealthy."),
        "queues": ("queues", "List queues, show messages, or move dead letters back."),
        "outbox": ("outbox", "List unsent messages; send dead ones again, or discard them."),
        "flows": ("flows", "List executions, draw flows, or resume parked executions."),
        "why": ("why", "Explain why something happened; exit 1 if nothing is known about it."),
        "bench": ("bench", "Compare the stores with raw drivers and the servers with bare apps."),
    },
}


class _Commands(HoldfastGroup):
    """The commands of `GROUPS`, each imported when it is called, and the installed systems."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for panel, commands in GROUPS.items():
            for name, (module, help) in commands.items():
                self.add_command(
                    DeferredCommand(name, module=f"{COMMANDS_PACKAGE}.{module}", help=help, panel=panel)
                )


app = typer.Typer(
    name="holdfast",
    cls=_Commands,
    help="Embedded, durable stores with DynamoDB's semantics, and the systems built on them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        app(arguments, prog_name="holdfast")
    except HoldfastError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        sys.stderr.write(f"holdfast: {format_error(error)}\n")
        sys.exit(EXIT_USAGE if isinstance(error, UsageError | InvalidArgument) else EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


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
