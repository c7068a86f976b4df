"""How answers are shown: JSON for programs, tables for people, a bar on a terminal while something takes long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column, Table

from holdfast.reports.scratch import Progress as ShowProgress
from holdfast.reports.scratch import silent

WIDTH_OF_FILES = 150
# Below this a name is folded into a pile of letters that nobody can read.
NAME_WIDTH_MIN = 14


def print_json(answer: Any) -> None:
    typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def console() -> Console:
    """As wide as the terminal; wide enough for every table where the answer goes into a file or a pipe."""
    shown = Console(highlight=False)
    return shown if shown.is_terminal else Console(highlight=False, width=max(shown.width, WIDTH_OF_FILES))


def plain_table(*columns: str | Column, title: str = "") -> Table:
    """A table without lines; a title stands above it, to the left. Text that is too long is folded, never cut."""
    shown = [
        Column(each, overflow="fold", min_width=min(len(each), NAME_WIDTH_MIN))
        if isinstance(each, str)
        else each
        for each in columns
    ]
    return Table(
        *shown, box=None, pad_edge=False, title=title or None, title_justify="left", title_style="bold"
    )


def number(header: str) -> Column:
    """A column of figures."""
    return Column(header, justify="right", no_wrap=True)


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[ShowProgress]:
    """A bar on standard error while the block runs, where that is a terminal and it is wanted."""
    terminal = Console(stderr=True)
    if not shown or not terminal.is_terminal:
        yield silent
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with Progress(*columns, console=terminal, transient=True) as bars:
        task = bars.add_task("getting ready", total=None)

        def show(what: str, done: int, total: int) -> None:
            bars.update(task, description=what, completed=done, total=total)

        yield show
