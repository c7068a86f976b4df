"""Run the benchmarks one after the other and print their figures as a table or JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.cli import startup
from benchmarks.console import pages
from benchmarks.harness.measurement import Figure, progress_listeners
from benchmarks.pagw import intake, latency, pipeline, request_scale, sql_statements
from benchmarks.richpanel import events, stored_events, webhooks
from benchmarks.skymarshal import disruption
from benchmarks.stores import (
    batch_import,
    conditional_put,
    fifo_queue,
    keyed_read,
    query_page,
    table_scale,
    wire_get,
)
from benchmarks.tripcortex import booking_scale, similarity

Benchmark = Callable[[Path], Figure | list[Figure]]

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "keyed-read": keyed_read.run,
    "conditional-put-tasks": conditional_put.run_tasks,
    "conditional-put-threads": conditional_put.run_threads,
    "query-page": query_page.run,
    "wire-get": wire_get.run,
    "batch-import": batch_import.run,
    "index-against-scan": disruption.compare_index_with_scan,
    "queues": fifo_queue.run,
    "webhooks": webhooks.run,
    "events": events.run,
    "sql": sql_statements.run,
    "similarity": similarity.run,
    "pagw-accepted": intake.run,
    "pagw-pipeline": pipeline.run,
    "pagw-latency": latency.run,
    "startup": startup.run,
}
SCALE: Final[dict[str, Benchmark]] = {
    "scale": table_scale.run,
    "disruption": disruption.run_at_scale,
    "stored-events": stored_events.run,
    "pagw-scale": request_scale.run,
    "tripcortex-scale": booking_scale.run,
    "similarity-scale": similarity.run_at_scale,
    "console-page": pages.run,
}


def run(*, names: list[str], with_scale: bool, as_json: bool) -> bool:
    """Run the named benchmarks, or all; print the figures. Return True if each reached its target.

    Without names, the benchmarks of scale run only with `with_scale`.
    """
    selected = {**BENCHMARKS, **(SCALE if with_scale else {})}
    if names:
        selected = {name: {**BENCHMARKS, **SCALE}[name] for name in names}
    figures: list[Figure] = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=Console(stderr=True)
    ) as progress:
        task = progress.add_task("", total=len(selected))
        for name, benchmark in selected.items():
            progress.update(task, description=name)
            progress_listeners[:] = [
                lambda status, name=name: progress.update(task, description=f"{name}, {status}")  # type: ignore[misc]
            ]
            figures += _run_benchmark(benchmark)
            progress.advance(task)
    if as_json:
        print(msgspec.json.encode(list(_to_json(figures))).decode())
    else:
        Console().print(_build_table(figures))
    return all(figure.passed for figure in figures)


def _run_benchmark(benchmark: Benchmark) -> list[Figure]:
    """Run a benchmark in a temporary folder and return its figures."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = benchmark(Path(folder))
    return found if isinstance(found, list) else [found]


def _to_json(figures: list[Figure]) -> Iterator[dict[str, object]]:
    for figure in figures:
        row = msgspec.to_builtins(figure)
        yield {**row, "passed": figure.passed}


def _build_table(figures: list[Figure]) -> Table:
    table = Table(title="Benchmarks", title_justify="left", box=None, pad_edge=False)
    for heading in ("", "per second", "floor", "ratio", "range", "min", ""):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.rate:,.0f}",
            f"{figure.floor_rate:,.0f}",
            _format_ratio(figure.ratio),
            f"{_format_ratio(figure.ratio_low)}-{_format_ratio(figure.ratio_high)}",
            "" if figure.must_reach is None else _format_ratio(figure.must_reach),
            "" if figure.must_reach is None else "ok" if figure.passed else "[bold]missed[/bold]",
        )
    return table


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"
