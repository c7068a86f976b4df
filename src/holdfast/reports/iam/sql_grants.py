"""Least-privilege SQL grants: one role per component, with the privileges that its statements need.

The owner of the tables runs the file with `psql` after every migration. It first revokes what an existing
role has in any of the system's schemas, also that of a component that no longer runs statements, and then
grants what the patterns need now. Each role may read the migration revision of its schemas, so that code does
not start on a newer schema. A role cannot log in until an operator gives it the password of the component's
secret. Sequences are found by the columns that own them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.model.components import Component
from holdfast.model.sql import SqlOperation
from holdfast.model.system import System
from holdfast.reports.examples import build_example
from holdfast.reports.iac.infrastructure import (
    GENERATED_NOTICE,
    map_to_distinct_names,
    to_file_name,
    to_snake_case,
)
from holdfast.reports.sql_statements import get_table_privileges, merge_privileges

# The table in which Alembic keeps a schema's revision.
VERSION_TABLE: Final = "alembic_version"
PRIVILEGES: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")

HEADER: Final = """\
-- {generated}: `holdfast iam {name}` regenerates it.
--
-- Run it as the owner of the tables, after the migrations. To let a role log in, set its secret's password:
--     ALTER ROLE {role} LOGIN PASSWORD '…';
"""
CREATE_ROLE: Final = """\
DO $$ BEGIN
    CREATE ROLE {role} NOLOGIN;
EXCEPTION WHEN duplicate_object THEN
    NULL;
END $$;
"""
# Runs before the grants: revokes what earlier declarations granted.
REVOKE_ALL: Final = """\
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') AND to_regnamespace('{schema}') IS NOT NULL THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role};
        REVOKE ALL ON ALL SEQUENCES IN SCHEMA {schema} FROM {role};
        REVOKE ALL ON SCHEMA {schema} FROM {role};
    END IF;
END $$;
"""
# Generated row numbers come from sequences, which need their own grant.
GRANT_SEQUENCES: Final = """\
DO $$ DECLARE
    sequence regclass;
BEGIN
    FOR sequence IN
        SELECT found.oid FROM pg_depend AS owned JOIN pg_class AS found ON found.oid = owned.objid
        WHERE found.relkind = 'S' AND owned.refobjid = ANY(ARRAY[{tables}]::regclass[])
    LOOP
        EXECUTE format('GRANT USAGE ON SEQUENCE %s TO {role}', sequence);
    END LOOP;
END $$;
"""


def build_grant_files(system: System) -> dict[str, str]:
    """Return `{system}-grants.sql` by file name; empty if no component runs statements."""
    needs = {component.name: collect_privileges(component) for component in system.components}
    using = {name: tables for name, tables in needs.items() if tables}
    if not using:
        return {}
    roles = map_to_distinct_names(needs, lambda name: get_role_name(system, name), "components")
    header = HEADER.format(generated=GENERATED_NOTICE, name=system.name, role=roles[next(iter(using))])
    revoked = _list_schemas(system, using.values())
    parts = [
        part for name, tables in needs.items() for part in _build_component_sql(roles[name], tables, revoked)
    ]
    return {f"{to_file_name(system.name)}-grants.sql": "\n".join([header, *parts])}


def build_component_grants(system: System, component: Component) -> str:
    """Return the part of the file for one component; empty if it runs no statements."""
    privileges = collect_privileges(component)
    if not privileges:
        return ""
    role = get_role_name(system, component.name)
    return "\n".join(_build_component_sql(role, privileges, _list_schemas(system, [privileges])))


def get_role_name(system: System, component: str) -> str:
    """Return the role of a component, such as `pagw_api`."""
    return to_snake_case(system.name, component)


def collect_privileges(component: Component) -> dict[str, frozenset[str]]:
    """Return the privileges that the component's statements need, by table."""
    operations = (part for pattern in component.patterns for part in build_example(pattern).parts)
    found = merge_privileges(
        get_table_privileges(each) for each in operations if isinstance(each, SqlOperation)
    )
    return dict(sorted(found.items()))


def _list_schemas(system: System, used_tables: Iterable[dict[str, frozenset[str]]]) -> list[str]:
    """Return the names of the declared schemas and of those that a statement names."""
    named = {table.partition(".")[0] for tables in used_tables for table in tables}
    return sorted(named | {schema.name for schema in system.schemas})


def _build_component_sql(
    role: str, privileges_by_table: dict[str, frozenset[str]], schemas: Iterable[str]
) -> Iterator[str]:
    """Yield the SQL that revokes all privileges of a role in the schemas and grants those that it needs."""
    for schema in schemas:
        yield REVOKE_ALL.format(role=role, schema=schema)
    if not privileges_by_table:
        return
    yield CREATE_ROLE.format(role=role)
    for schema in sorted({table.partition(".")[0] for table in privileges_by_table}):
        yield f"GRANT USAGE ON SCHEMA {schema} TO {role};"
        yield f"GRANT SELECT ON {schema}.{VERSION_TABLE} TO {role};"
    for table, privileges in privileges_by_table.items():
        verbs = ", ".join(verb for verb in PRIVILEGES if verb in privileges)
        yield f"GRANT {verbs} ON {table} TO {role};"
    inserted = [f"'{table}'" for table, privileges in privileges_by_table.items() if "INSERT" in privileges]
    yield GRANT_SEQUENCES.format(tables=", ".join(inserted), role=role) if inserted else ""
