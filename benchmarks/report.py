"""The benchmarks run one after the other, shown as a table to a person and as JSON to a program."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import (
    batch_import,
    conditional_put,
    disruption,
    events,
    keyed_read,
    pagw_accepted,
    pagw_pipeline,
    pagw_scale,
    query_page,
    queues,
    scale,
    similarity,
    sql_statements,
    stored_events,
    tripcortex_scale,
    webhooks,
    wire_get,
)
from benchmarks.measure import Figure, listeners

Benchmark = Callable[[Path], Figure | list[Figure]]

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "keyed-read": keyed_read.run,
    "conditional-put-tasks": conditional_put.run_tasks,
    "conditional-put-threads": conditional_put.run_threads,
    "query-page": query_page.run,
    "wire-get": wire_get.run,
    "batch-import": batch_import.run,
    "index-against-scan": disruption.index_against_scan,
    "queues": queues.run,
    "webhooks": webhooks.run,
    "events": events.run,
    "sql": sql_statements.run,
    "similarity": similarity.run,
    "pagw-accepted": pagw_accepted.run,
    "pagw-pipeline": pagw_pipeline.run,
}
SCALE: Final[dict[str, Benchmark]] = {
    "scale": scale.run,
    "disruption": disruption.at_scale,
    "stored-events": stored_events.run,
    "pagw-scale": pagw_scale.run,
    "tripcortex-scale": tripcortex_scale.run,
    "similarity-scale": similarity.at_scale,
}


def run(*, names: list[str], with_scale: bool, as_json: bool) -> bool:
    """Whether every figure reached what it must."""
    chosen = {**BENCHMARKS, **(SCALE if with_scale else {})}
    if names:
        chosen = {name: {**BENCHMARKS, **SCALE}[name] for name in names}
    figures: list[Figure] = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=Console(stderr=True)
    ) as progress:
        task = progress.add_task("", total=len(chosen))
        for name, benchmark in chosen.items():
            progress.update(task, description=name)
            listeners[:] = [lambda told, name=name: progress.update(task, description=f"{name}, {told}")]  # type: ignore[misc]
            figures += _figures(benchmark)
            progress.advance(task)
    if as_json:
        print(msgspec.json.encode(list(_rows(figures))).decode())
    else:
        Console().print(_table(figures))
    return all(figure.passed for figure in figures)


def _figures(benchmark: Benchmark) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = benchmark(Path(folder))
    return found if isinstance(found, list) else [found]


def _rows(figures: list[Figure]) -> Iterator[dict[str, object]]:
    for figure in figures:
        row = msgspec.to_builtins(figure)
        yield {**row, "passed": figure.passed}


def _table(figures: list[Figure]) -> Table:
    table = Table(title="Benchmarks", title_justify="left", box=None, pad_edge=False)
    for heading in ("", "per second", "floor", "ratio", "rounds", "must", ""):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.rate:,.0f}",
            f"{figure.floor_rate:,.0f}",
            _ratio(figure.ratio),
            f"{_ratio(figure.ratio_low)}-{_ratio(figure.ratio_high)}",
            "" if figure.must_reach is None else _ratio(figure.must_reach),
            "" if figure.must_reach is None else "ok" if figure.passed else "[bold]missed[/bold]",
        )
    return table


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"
