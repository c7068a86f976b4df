"""`holdfast bench`: each figure beside its raw floor, in the same run.

The benchmarks are part of the source tree, not of the installed package: they stand on the driver and on the
server directly, which nothing in the package may.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

import holdfast
from holdfast.cli.extras import require
from holdfast.cli.misuse import CalledWrongly
from holdfast.errors import SettingsError

EXIT_MISSED = 1


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these; all of them if none is named.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="Also at a hundred times the data (many minutes).")
    ] = False,
) -> None:
    """Measure the engine beside raw SQLite and the wire beside a bare app; exit 1 if a figure is missed."""
    root = Path(holdfast.__file__).parents[2]
    if not (root / "benchmarks" / "report.py").is_file():
        raise SettingsError(
            "The benchmarks come with the source tree, not with the installed package: run this in a clone."
        )
    require("bench", "serve", "api", "objects", "sql", "cache", "pagw")
    sys.path.insert(0, str(root))
    report = importlib.import_module("benchmarks.report")
    known = [*report.BENCHMARKS, *report.SCALE]
    unknown = [name for name in names or [] if name not in known]
    if unknown:
        raise CalledWrongly(f"There is no benchmark {unknown[0]!r}: choose from {', '.join(known)}.")
    if not report.run(names=names or [], with_scale=scale, as_json=as_json):
        raise typer.Exit(EXIT_MISSED)
