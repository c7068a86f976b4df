"""`holdfast bench`: run the benchmarks of the source tree, each next to its raw floor in the same run.

The benchmarks are part of the source tree, not of the installed package: they use the database driver and the
HTTP server directly, which nothing in the package may do.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

import holdfast
from holdfast.cli.extras import require_extras
from holdfast.cli.usage_error import UsageError
from holdfast.core.errors import SettingsError

EXIT_MISSED = 1


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="The benchmarks to run. Default: all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="Also measure at a hundred times the data (many minutes).")
    ] = False,
) -> None:
    """Compare the stores with raw drivers and the servers with bare apps.

    Exit 1 if a target is missed.
    """
    root = Path(holdfast.__file__).parents[2]
    if not (root / "benchmarks" / "report.py").is_file():
        raise SettingsError(
            "The benchmarks are not part of the installed package: run this command in a clone of the source."
        )
    require_extras("bench", "serve", "api", "objects", "sql", "cache")
    sys.path.insert(0, str(root))
    try:
        report = importlib.import_module("benchmarks.report")
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"The benchmarks need {error.name}, which is not installed: run make setup in the clone."
        ) from error
    known = [*report.BENCHMARKS, *report.SCALE]
    unknown = [name for name in names or [] if name not in known]
    if unknown:
        raise UsageError(f"Unknown benchmark {unknown[0]!r}: choose from {', '.join(known)}.")
    if not report.run(names=names or [], with_scale=scale, as_json=as_json):
        raise typer.Exit(EXIT_MISSED)
