"""`holdfast up`: everything that can be served from here, with its addresses."""

from __future__ import annotations

import typer

from holdfast.cli.commands.serve import serve


def up() -> None:
    """Start what is served, as the settings say. For now that is the DynamoDB endpoint."""
    typer.echo(
        "Starting the DynamoDB endpoint. The APIs and workers of the five systems come with the systems."
    )
    serve()
