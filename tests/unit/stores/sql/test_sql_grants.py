"""Generated grants of component roles, run on a real PostgreSQL: the schema version, and lost grants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from psycopg.errors import InsufficientPrivilege

from holdfast import open_stores
from holdfast.core.errors import SchemaMismatch
from holdfast.reports.iam.sql_grants import build_grant_files
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.runtime.system_provisioner import get_schema_states
from tests.postgres import connect, create_database
from tests.unit.reports.surgery import SYSTEM, surgery


async def test_older_component_reports_that_the_schema_is_newer() -> None:
    url = create_database(surgery)
    [text] = build_grant_files(SYSTEM).values()
    with connect(url) as owner:
        owner.execute(text.encode())
        owner.execute("ALTER ROLE surgery_desk LOGIN")
        owner.execute("UPDATE surgery.alembic_version SET version_num = '9999'")
    settings = replace(MEMORY_SETTINGS, sql=url.replace("postgres@", "surgery_desk@"))

    async def start() -> None:
        async with open_stores(SYSTEM, settings) as stores:
            await get_schema_states(stores, SYSTEM.schemas)

    with pytest.raises(SchemaMismatch, match="9999"):
        await start()


def test_component_without_statements_loses_its_grants() -> None:
    [before] = build_grant_files(SYSTEM).values()
    components = tuple(replace(each, uses=()) if each.name == "desk" else each for each in SYSTEM.components)
    [after] = build_grant_files(replace(SYSTEM, components=components)).values()
    with connect(create_database(surgery)) as owner:
        owner.execute(before.encode())
        owner.execute(after.encode())
        owner.execute("SET ROLE surgery_desk")
        for table in ("visits", "alembic_version"):
            with pytest.raises(InsufficientPrivilege):
                owner.execute(f"SELECT count(*) FROM surgery.{table}".encode())
