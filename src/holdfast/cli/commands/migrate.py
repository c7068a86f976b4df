"""`holdfast migrate`: migrate SQL schemas, and move a table in use to a new key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.extras import require_extras
from holdfast.cli.sql_schemas import (
    apply_migrations,
    find_misfits,
    print_misfits,
    print_pending_sql,
    report_states,
)
from holdfast.cli.usage_error import UsageError
from holdfast.core.errors import NotFound

if TYPE_CHECKING:
    from holdfast.guarantees.table_migration import Migration, MigrationPlan, MigrationReport
    from holdfast.model.system import System

EXIT_OBSTACLES = 1


class Until(StrEnum):
    """The steps after which a migration can stop."""

    prepare = "prepare"
    backfill = "backfill"
    verify = "verify"
    switch = "switch"


def migrate(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system to migrate.")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A live migration of a table. Default: the SQL schemas."),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", "--dry-run", help="Change nothing: print the SQL, or check every row of the table."
        ),
    ] = False,
    until: Annotated[Until | None, typer.Option("--until", help="Stop after this step.")] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete the old table, once the new one has replaced it.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="With --remove: even if the old table was written to after the switch."),
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Only report the progress.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only check that every SQL statement matches its row.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Migrate the SQL schemas, or run the live migration NAME.

    Without NAME, the live migrations are listed too. Run it again to resume after an interruption.
    """
    _check_options(name, until, force, plan=plan, remove=remove, status=status, check=check)
    from holdfast.model.system import load_system

    found = load_system(system)
    if found.schemas and name is None:
        require_extras("migrate", "sql")
    if check:
        _check_statements(found, as_json)
    elif plan and found.schemas and name is None:
        print_pending_sql(found, as_json=as_json)
    elif name is None and not plan and (found.schemas or not status):
        asyncio.run(_migrate_schemas(found, as_json, status_only=status))
    else:
        table_migration = _TableMigration(found, name, as_json)
        asyncio.run(table_migration.run(plan, until or Until.switch, remove, force, status))


def _check_options(name: str | None, until: Until | None, force: bool, **modes: bool) -> None:
    """Raise `UsageError` for options that exclude or need each other. `modes` are the flags of which one may
    be set.
    """
    given = [f"--{mode}" for mode, is_given in modes.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other: give one of them.")
    if force and not modes["remove"]:
        raise UsageError("--force needs --remove: give both, or neither.")
    if name is None and (until or modes["remove"]):
        raise UsageError(
            "--until and --remove need the NAME of a migration: `holdfast migrate SYSTEM` lists them."
        )
    if name is not None and modes["check"]:
        raise UsageError("--check and NAME exclude each other: --check is for SQL schemas, NAME for a table.")


def _check_statements(system: System, as_json: bool) -> None:
    """Print the SQL statements that do not match their rows; exit 1 if there are any."""
    found = find_misfits(system)
    print_misfits(found, as_json=as_json)
    if found:
        raise typer.Exit(EXIT_OBSTACLES)


async def _migrate_schemas(system: System, as_json: bool, *, status_only: bool) -> None:
    """Migrate the SQL schemas and print the progress of every live migration. `status_only` changes
    nothing.
    """
    from holdfast.cli.output.console import print_json
    from holdfast.guarantees.table_migration import get_status
    from holdfast.runtime import open_stores

    async with open_stores(system) as stores:
        rows = []
        if system.schemas:
            rows = await (report_states if status_only else apply_migrations)(stores, system, as_json=as_json)
        reports = [(each, await get_status(each, stores)) for each in system.admin.migrations.values()]
    if as_json:
        print_json([*rows, *(_to_json(report) for _, report in reports)])
    else:
        _print_migrations(system, reports)


def _print_migrations(system: System, reports: Sequence[tuple[Migration[Any, Any], MigrationReport]]) -> None:
    """Print the report of each live migration, or that the system declares none."""
    from holdfast.cli.output.console import get_console

    for migration, report in reports:
        _print_report(migration, report)
    if reports:
        get_console().print(
            f"`holdfast migrate {system.name} NAME` runs one, up to and including the switch.", markup=False
        )
    elif not system.schemas:
        get_console().print(f"{system.name} declares no migrations.")


class _TableMigration:
    """One run of the command for a live migration of a table."""

    def __init__(self, system: System, name: str | None, as_json: bool) -> None:
        self._system, self._as_json = system, as_json
        self._migration = _select_migration(system, name)

    async def run(self, plan: bool, until: Until, remove: bool, force: bool, status: bool) -> None:
        """Do one thing: plan, report the status, remove the old table, or migrate up to and including
        `until`.
        """
        from holdfast.guarantees import table_migration as migrations
        from holdfast.runtime import open_stores

        async with open_stores(self._system) as stores:
            if plan:
                self._report_plan(await self._run_with_progress(migrations.plan_migration, stores))
            elif status:
                self._report(await migrations.get_status(self._migration, stores))
            elif remove:
                self._report(await migrations.remove_source(self._migration, stores, force=force))
            else:
                step = migrations.MigrationStep(until.value)
                self._report(await self._run_with_progress(migrations.migrate, stores, until=step))

    async def _run_with_progress(self, work: Any, stores: Any, **options: Any) -> Any:
        """Await `work` on the migration and the stores, with a progress bar unless the output is JSON."""
        from holdfast.cli.output.console import progress_bar

        with progress_bar(enabled=not self._as_json) as progress:
            return await work(self._migration, stores, progress=progress, **options)

    def _report_plan(self, plan: MigrationPlan) -> None:
        """Print the plan; exit 1 if the migration cannot run."""
        from holdfast.cli.output.console import print_json

        if self._as_json:
            print_json(asdict(plan) | {"is_possible": plan.is_possible})
        else:
            _print_plan(self._migration, plan)
        if not plan.is_possible:
            raise typer.Exit(EXIT_OBSTACLES)

    def _report(self, report: MigrationReport) -> None:
        from holdfast.cli.output.console import print_json

        if self._as_json:
            print_json(_to_json(report))
        else:
            _print_report(self._migration, report)


def _select_migration(system: System, name: str | None) -> Migration[Any, Any]:
    """Return the migration of this name; None selects the only one. Raise `NotFound` if there is not exactly
    one.
    """
    known = ", ".join(system.admin.migrations)
    if name is None and len(system.admin.migrations) == 1:
        return next(iter(system.admin.migrations.values()))
    if name is None or name not in system.admin.migrations:
        problem = "Give the NAME of a migration" if name is None else f"Unknown migration {name!r}"
        raise NotFound(f"{problem}: {system.name} has {known or 'none'}.")
    return system.admin.migrations[name]  # type: ignore[no-any-return]


def _to_json(report: MigrationReport) -> dict[str, Any]:
    times = {"started_at": report.started_at, "changed_at": report.changed_at}
    return asdict(report) | {name: moment and moment.isoformat() for name, moment in times.items()}


def _print_plan(migration: Migration[Any, Any], plan: MigrationPlan) -> None:
    """Print the row counts, the rows that stop the migration, and whether it can run."""
    from holdfast.cli.output.console import get_console

    out = get_console()
    out.print(f"[bold]{migration.name}[/]: {_format_tables(migration)}, {plan.rows:,} rows")
    if plan.target_rows:
        out.print(f"The new table already has {plan.target_rows:,} rows.")
    if plan.plain_key_lost:
        out.print(
            f"The key ({plan.plain_key}) alone would lose {plan.plain_key_lost:,} rows; "
            "the declared key loses none."
            if not plan.collision_count
            else f"The key ({plan.plain_key}) alone would lose {plan.plain_key_lost:,} rows."
        )
    for title, rows in (
        ("several rows for one new key", plan.collisions),
        ("rows that cannot be moved", plan.unmovable),
        ("rows of the new table without an old row", plan.strangers),
    ):
        if rows:
            out.print(f"[red]{title}[/]")
            for each in rows:
                out.print(f"  {each}", markup=False)
    out.print("The migration can run." if plan.is_possible else f"[red]{plan.format_obstacles()}.[/]")


def _print_report(migration: Migration[Any, Any], report: MigrationReport) -> None:
    """Print the phase and the counts of a live migration."""
    from holdfast.cli.output.console import build_table, get_console

    out = get_console()
    out.print(f"[bold]{migration.name}[/]: {_format_tables(migration)}, {report.phase or 'not started'}")
    table = build_table("label", "value")
    table.show_header = False
    values = {
        "rows at the switch": report.rows,
        "checksum": report.checksum,
        "copied": report.copied,
        "skipped": report.passed_over,
        "changes applied": report.followed,
        "copied again": report.repaired,
        "gaps in the stream": report.gaps,
        "segments done": f"{report.segments_done} of {report.segments}" if report.segments else None,
        "started": report.started_at,
        "last step": report.changed_at,
    }
    for label, value in values.items():
        if value:
            table.add_row(label, f"{value:,}" if isinstance(value, int) else f"{value}")
    if report.phase is not None:
        out.print(table)


def _format_tables(migration: Migration[Any, Any]) -> str:
    """Return `Old → New` with the names of the source and target tables."""
    from holdfast.model.entities import get_declaration

    tables = [get_declaration(each).table.name for each in (migration.source, migration.target)]
    return " → ".join(tables)
