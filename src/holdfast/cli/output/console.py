"""Console output: JSON for programs, tables for people, and a progress bar on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from holdfast.core.progress import Progress, ignore_progress
from holdfast.core.terminal import escape_control_chars

NON_TERMINAL_WIDTH = 150
# A narrower column folds names until they are unreadable.
MIN_COLUMN_WIDTH = 14


class SafeConsole(Console):
    """A console that escapes control characters in text, so that stored data cannot control the terminal."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(escape_control_chars(text), **how)


def print_json(value: Any) -> None:
    """Print a value as indented JSON on standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # UTF-8 cannot encode a lone surrogate; JSON can, as an escape.
    typer.echo(text.encode("utf-8", "backslashreplace").decode())


def print_text(text: str, *, err: bool = False) -> None:
    """Print text for a person, with control characters escaped."""
    typer.echo(escape_control_chars(text), err=err)


def get_console(*, err: bool = False) -> Console:
    """Return a console as wide as the terminal; for a file or a pipe, at least `NON_TERMINAL_WIDTH` wide."""
    shown = SafeConsole(highlight=False, stderr=err)
    if shown.is_terminal:
        return shown
    return SafeConsole(highlight=False, stderr=err, width=max(shown.width, NON_TERMINAL_WIDTH))


def build_table(*columns: str | Column, title: str = "") -> Table:
    """Build a table without lines, with an optional title at the top left. Long text is folded, never cut."""
    shown = [
        Column(each, overflow="fold", min_width=min(len(each), MIN_COLUMN_WIDTH))
        if isinstance(each, str)
        else each
        for each in columns
    ]
    return Table(
        *shown, box=None, pad_edge=False, title=title or None, title_justify="left", title_style="bold"
    )


def number_column(header: str) -> Column:
    """Return a right-aligned column for numbers."""
    return Column(header, justify="right", no_wrap=True)


@contextmanager
def progress_bar(*, enabled: bool) -> Iterator[Progress]:
    """Show a bar on standard error while the block runs, if `enabled` and standard error is a terminal.

    Yield the function to call with the task, the number of steps done, and the total.
    """
    terminal = SafeConsole(stderr=True)
    if not enabled or not terminal.is_terminal:
        yield ignore_progress
        return
    from rich import progress as bar

    columns = (
        bar.TextColumn("{task.description}"),
        bar.BarColumn(),
        bar.TaskProgressColumn(),
        bar.MofNCompleteColumn(),
    )
    with bar.Progress(*columns, console=terminal, transient=True) as bars:
        task = bars.add_task("getting ready", total=None)

        def show(what: str, done: int, total: int) -> None:
            bars.update(task, description=what, completed=done, total=total)

        yield show
