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
from rich.text import Text

from holdfast.reports.scratch import Progress as ShowProgress
from holdfast.reports.scratch import silent
from holdfast.terminal import harmless

WIDTH_OF_FILES = 150
# Below this a name is folded into a pile of letters that nobody can read.
NAME_WIDTH_MIN = 14


class Screen(Console):
    """A console on which no text of anybody steers the terminal: only styles of ours do."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(harmless(text), **how)


def print_json(answer: Any) -> None:
    told = json.dumps(answer, indent=2, ensure_ascii=False)
    # Half a pair of surrogates cannot be sent; written as its escape, JSON has it.
    typer.echo(told.encode("utf-8", "backslashreplace").decode())


def say(text: str, *, err: bool = False) -> None:
    """A line or several for a person, whoever wrote them."""
    typer.echo(harmless(text), err=err)


def console(*, err: bool = False) -> Console:
    """As wide as the terminal; wide enough for every table where the answer goes into a file or a pipe."""
    shown = Screen(highlight=False, stderr=err)
    if shown.is_terminal:
        return shown
    return Screen(highlight=False, stderr=err, width=max(shown.width, WIDTH_OF_FILES))


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
    terminal = Screen(stderr=True)
    if not shown or not terminal.is_terminal:
        yield silent
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with Progress(*columns, console=terminal, transient=True) as bars:
        task = bars.add_task("getting ready", total=None)

        def show(what: str, done: int, total: int) -> None:
            bars.update(task, description=what, completed=done, total=total)

        yield show
