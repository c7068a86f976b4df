"""The `holdfast` command: its global options, its commands by name, and what a user sees of an error.

`main` is the entry point. A `HoldfastError` is a sentence for the user and becomes one line; anything else
is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

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
from holdfast.cli.misuse import CalledWrongly
from holdfast.cli.system_commands import HoldfastGroup
from holdfast.errors import HoldfastError
from holdfast.terminal import harmless

EXIT_REFUSED = 1
EXIT_MISUSED = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="holdfast",
    # With a group for each installed system, of the commands that it brings.
    cls=HoldfastGroup,
    help="DynamoDB's semantics, embedded and durable, and the systems built on them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Each command has a module of its own; to add one, write the module and name it here and in docs/commands.md.
app.command("backup")(backup.backup)
app.command("bench")(bench.bench)
app.command("check")(check.check)
app.command("cost")(cost.cost)
app.command("demo")(demo.demo)
app.command("docs")(docs.docs)
app.command("doctor")(doctor.doctor)
app.command("erase")(erase.erase)
app.command("export")(export_table.export_table)
app.command("flows")(flows.flows)
app.command("iac")(iac.iac)
app.command("iam")(iam.iam)
app.command("import")(import_table.import_table)
app.command("indexes")(indexes.indexes)
app.command("mcp")(mcp.mcp)
app.command("migrate")(migrate.migrate)
app.command("outbox")(outbox.outbox)
app.command("patterns")(patterns.patterns)
app.command("queues")(queues.queues)
app.command("restore")(restore.restore)
app.command("retention")(retention.retention)
app.command("run")(run.run)
app.command("sample")(sample.sample)
app.command("scan")(scan.scan)
app.command("serve")(serve.serve)
app.command("systems")(systems.systems)
app.command("tables")(tables.tables)
app.command("up")(up.up)
app.command("why")(why.why)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 refused, 2 misused, 130 interrupted."""
    try:
        app(arguments, prog_name="holdfast")
    except HoldfastError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        sys.stderr.write(f"holdfast: {_one_line(error)}\n")
        sys.exit(EXIT_MISUSED if isinstance(error, CalledWrongly) else EXIT_REFUSED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _one_line(error: HoldfastError) -> str:
    """The message and our notes beside it, without line breaks."""
    return harmless(" ".join(" ".join([error.message, *getattr(error, "__notes__", [])]).split()))


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error.", envvar="HOLDFAST_DEBUG")
    ] = False,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="The settings file.", envvar="HOLDFAST_SETTINGS")
    ] = None,
) -> None:
    # Both travel by environment, so that a process this one starts sees the same.
    if debug:
        os.environ["HOLDFAST_DEBUG"] = "1"
    if settings is not None:
        os.environ["HOLDFAST_SETTINGS"] = str(settings)
