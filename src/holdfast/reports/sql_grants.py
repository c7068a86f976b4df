"""The least privilege of each component in the database: a role for each, and on every table what its statements need.

A migrator runs the file, by `psql` as the owner of the tables, after every migration: a role that is there loses what it
had in any of the system's schemas, and gets what follows from the patterns now; so does that of a component which runs
no statement any more. Each role may read how far the schemas it uses are, so that code does not start on a schema that is
newer. Roles cannot log in until somebody gives them the password of the component's secret. Sequences are found by the
columns that own them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.model.sql import SqlOperation
from holdfast.model.system import Component, System
from holdfast.reports.examples import example_of
from holdfast.reports.infrastructure import GENERATED, distinct, hyphenated, snake_case
from holdfast.reports.statements import tables_of, united

# In which a schema keeps the revision that it is at.
VERSION_TABLE: Final = "alembic_version"
VERBS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")

HEADER: Final = """\
-- {generated}: `holdfast iam {name}` makes it anew.
--
-- Run it as the owner of the tables, after the migrations. A role logs in when it is given the password of its secret:
--     ALTER ROLE {role} LOGIN PASSWORD '…';
"""
ROLE: Final = """\
DO $$ BEGIN
    CREATE ROLE {role} NOLOGIN;
EXCEPTION WHEN duplicate_object THEN
    NULL;
END $$;
"""
# Before anything is granted: what was granted once, by whatever former declaration.
REVOKED: Final = """\
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') AND to_regnamespace('{schema}') IS NOT NULL THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role};
        REVOKE ALL ON ALL SEQUENCES IN SCHEMA {schema} FROM {role};
        REVOKE ALL ON SCHEMA {schema} FROM {role};
    END IF;
END $$;
"""
# Numbers that a table gives its rows come from sequences, which a role may use only if it is told so.
SEQUENCES: Final = """\
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


def grant_files(system: System) -> dict[str, str]:
    """`pagw-grants.sql`, where a component runs statements."""
    needs = {component.name: tables_for(component) for component in system.components}
    using = {name: tables for name, tables in needs.items() if tables}
    if not using:
        return {}
    roles = distinct(needs, lambda name: role_of(system, name), "components")
    header = HEADER.format(generated=GENERATED, name=system.name, role=roles[next(iter(using))])
    revoked = _schemas(system, using.values())
    parts = [part for name, tables in needs.items() for part in _of_component(roles[name], tables, revoked)]
    return {f"{hyphenated(system.name)}-grants.sql": "\n".join([header, *parts])}


def role_of(system: System, component: str) -> str:
    """`pagw_api`."""
    return snake_case(system.name, component)


def tables_for(component: Component) -> dict[str, frozenset[str]]:
    """By table, what the component's statements need of it."""
    operations = (part for pattern in component.patterns for part in example_of(pattern).parts)
    found = united(tables_of(each) for each in operations if isinstance(each, SqlOperation))
    return dict(sorted(found.items()))


def _schemas(system: System, using: Iterable[dict[str, frozenset[str]]]) -> list[str]:
    """Those that are declared, and those that a statement names besides."""
    named = {table.partition(".")[0] for tables in using for table in tables}
    return sorted(named | {schema.name for schema in system.schemas})


def _of_component(role: str, tables: dict[str, frozenset[str]], revoked: Iterable[str]) -> Iterator[str]:
    for schema in revoked:
        yield REVOKED.format(role=role, schema=schema)
    if not tables:
        return
    yield ROLE.format(role=role)
    for schema in sorted({table.partition(".")[0] for table in tables}):
        yield f"GRANT USAGE ON SCHEMA {schema} TO {role};"
        yield f"GRANT SELECT ON {schema}.{VERSION_TABLE} TO {role};"
    for table, privileges in tables.items():
        verbs = ", ".join(verb for verb in VERBS if verb in privileges)
        yield f"GRANT {verbs} ON {table} TO {role};"
    inserted = [f"'{table}'" for table, privileges in tables.items() if "INSERT" in privileges]
    yield SEQUENCES.format(tables=", ".join(inserted), role=role) if inserted else ""
