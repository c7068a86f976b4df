"""`holdfast migrate`: the schemas of SQL brought to their newest, and a table moved to a new key while it is in use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.extras import require
from holdfast.cli.misuse import CalledWrongly
from holdfast.cli.schemas import migrated, misfits, show_misfits, show_sql, told
from holdfast.errors import NotFound

if TYPE_CHECKING:
    from holdfast.guarantees.migration import Migration, Plan, Report
    from holdfast.model.system import System

EXIT_OBSTACLES = 1


class Until(StrEnum):
    """The steps that a migration can be stopped after."""

    prepare = "prepare"
    backfill = "backfill"
    verify = "verify"
    switch = "switch"


def migrate(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system.")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A live migration of a table; without it the schemas of SQL."),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", "--dry-run", help="Write nothing: print the SQL, or try every row of a table."
        ),
    ] = False,
    until: Annotated[Until | None, typer.Option("--until", help="Stop after this step.")] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete the old table, once the new one is the truth.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --remove: although the old table was written to since.")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Only tell how far it is.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only look whether every statement of SQL fits its row.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Bring the schemas of SQL to their newest and list the live migrations; with a NAME, go through that one.

    Run it again to go on after an interruption.
    """
    _refuse_mixtures(name, until, force, plan=plan, remove=remove, status=status, check=check)
    from holdfast.model.system import installed_system

    found = installed_system(system)
    if found.schemas and name is None:
        require("migrate", "sql")
    if check:
        _checked(found, as_json)
    elif plan and found.schemas and name is None:
        show_sql(found, as_json=as_json)
    elif name is None and not plan and (found.schemas or not status):
        asyncio.run(_gone_through(found, as_json, only_told=status))
    else:
        asked = _Asked(found, name, as_json)
        asyncio.run(asked.answered(plan, until or Until.switch, remove, force, status))


def _refuse_mixtures(name: str | None, until: Until | None, force: bool, **ways: bool) -> None:
    chosen = [f"--{way}" for way, is_chosen in ways.items() if is_chosen]
    if len(chosen) > 1:
        raise CalledWrongly(f"{' and '.join(chosen)} exclude each other: name one.")
    if force and not ways["remove"]:
        raise CalledWrongly("--force belongs to --remove: name both, or neither.")
    if name is None and (until or ways["remove"]):
        raise CalledWrongly(
            "What changes tables needs the migration's NAME: `holdfast migrate SYSTEM` lists them."
        )
    if name is not None and ways["check"]:
        raise CalledWrongly("--check is about the schemas of SQL, and NAME about a table: leave one out.")


def _checked(system: System, as_json: bool) -> None:
    found = misfits(system)
    show_misfits(found, as_json=as_json)
    if found:
        raise typer.Exit(EXIT_OBSTACLES)


async def _gone_through(system: System, as_json: bool, *, only_told: bool) -> None:
    """The schemas, migrated or only told of; and every live migration of a table with how far it is."""
    from holdfast.cli.showing import print_json
    from holdfast.guarantees.migration import status
    from holdfast.runtime import open_stores

    async with open_stores(system) as stores:
        answers = []
        if system.schemas:
            answers = await (told if only_told else migrated)(stores, system, as_json=as_json)
        reports = [(each, await status(each, stores)) for each in system.migrations.values()]
    if as_json:
        print_json([*answers, *(_as_json(report) for _, report in reports)])
    else:
        _print_list(system, reports)


def _print_list(system: System, reports: Sequence[tuple[Migration[Any, Any], Report]]) -> None:
    from holdfast.cli.showing import console

    for migration, report in reports:
        _print_report(migration, report)
    if reports:
        console().print(
            f"`holdfast migrate {system.name} NAME` goes through one, up to the switch.", markup=False
        )
    elif not system.schemas:
        console().print(f"{system.name} declares no migration.")


class _Asked:
    """One call of the command."""

    def __init__(self, system: System, name: str | None, as_json: bool) -> None:
        self._system, self._as_json = system, as_json
        self._migration = _chosen(system, name)

    async def answered(self, plan: bool, until: Until, remove: bool, force: bool, status: bool) -> None:
        from holdfast.guarantees import migration as migrations
        from holdfast.runtime import open_stores

        async with open_stores(self._system) as stores:
            if plan:
                self._show_plan(await self._with_bar(migrations.plan, stores))
            elif status:
                self._show(await migrations.status(self._migration, stores))
            elif remove:
                self._show(await migrations.remove(self._migration, stores, force=force))
            else:
                step = migrations.Step(until.value)
                self._show(await self._with_bar(migrations.migrate, stores, until=step))

    async def _with_bar(self, work: Any, stores: Any, **options: Any) -> Any:
        from holdfast.cli.showing import progress_bar

        with progress_bar(shown=not self._as_json) as progress:
            return await work(self._migration, stores, progress=progress, **options)

    def _show_plan(self, found: Plan) -> None:
        from holdfast.cli.showing import print_json

        if self._as_json:
            print_json(asdict(found) | {"is_possible": found.is_possible})
        else:
            _print_plan(self._migration, found)
        if not found.is_possible:
            raise typer.Exit(EXIT_OBSTACLES)

    def _show(self, report: Report) -> None:
        from holdfast.cli.showing import print_json

        if self._as_json:
            print_json(_as_json(report))
        else:
            _print_report(self._migration, report)


def _chosen(system: System, name: str | None) -> Migration[Any, Any]:
    known = ", ".join(system.migrations)
    if name is None and len(system.migrations) == 1:
        return next(iter(system.migrations.values()))
    if name is None or name not in system.migrations:
        asked = "Name a migration" if name is None else f"There is no migration {name!r}"
        raise NotFound(f"{asked}: {system.name} has {known or 'none'}.")
    return system.migrations[name]  # type: ignore[no-any-return]


def _as_json(report: Report) -> dict[str, Any]:
    times = {"started_at": report.started_at, "changed_at": report.changed_at}
    return asdict(report) | {name: moment and moment.isoformat() for name, moment in times.items()}


def _print_plan(migration: Migration[Any, Any], found: Plan) -> None:
    from holdfast.cli.showing import console

    out = console()
    out.print(f"[bold]{migration.name}[/]: {_ways(migration)}, {found.rows:,} rows")
    if found.target_rows:
        out.print(f"The new table has {found.target_rows:,} rows already.")
    if found.plain_key_lost:
        out.print(
            f"The key ({found.plain_key}) alone would lose {found.plain_key_lost:,} rows; the declared one loses none."
            if not found.collision_count
            else f"The key ({found.plain_key}) alone would lose {found.plain_key_lost:,} rows."
        )
    for title, several in (
        ("several rows for one new key", found.collisions),
        ("rows that cannot be moved", found.unmovable),
        ("rows of the new table that no old one gives", found.strangers),
    ):
        if several:
            out.print(f"[red]{title}[/]")
            for each in several:
                out.print(f"  {each}", markup=False)
    out.print("Nothing stands in the way." if found.is_possible else f"[red]{found.obstacles()}.[/]")


def _print_report(migration: Migration[Any, Any], report: Report) -> None:
    from holdfast.cli.showing import console, plain_table

    out = console()
    out.print(f"[bold]{migration.name}[/]: {_ways(migration)}, {report.phase or 'not begun'}")
    table = plain_table("what", "figure")
    table.show_header = False
    told = {
        "rows at the switch": report.rows,
        "checksum": report.checksum,
        "copied": report.copied,
        "passed over": report.passed_over,
        "changes followed": report.followed,
        "copied again": report.repaired,
        "gaps in the stream": report.gaps,
        "parts done": f"{report.segments_done} of {report.segments}" if report.segments else None,
        "begun": report.started_at,
        "last step": report.changed_at,
    }
    for what, figure in told.items():
        if figure:
            table.add_row(what, f"{figure:,}" if isinstance(figure, int) else f"{figure}")
    if report.phase is not None:
        out.print(table)


def _ways(migration: Migration[Any, Any]) -> str:
    from holdfast.model import declaration_of

    tables = [declaration_of(each).table.name for each in (migration.source, migration.target)]
    return " → ".join(tables)
