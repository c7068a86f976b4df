"""Schema that the migrations create, compared with the document's own DDL in real PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast import open_stores
from holdfast.model.sql import SqlOperation
from holdfast.runtime import check_statements
from holdfast.runtime.factory import MEMORY_SETTINGS
from pagw.model.entities import pagw
from pagw.system import SYSTEM
from tests.postgres import connect, create_database

# The document's DDL, in a schema of another name.
DOCUMENT = """
CREATE SCHEMA document;
CREATE TABLE document.request_tracker (
    pagw_id VARCHAR(50) PRIMARY KEY,
    tenant VARCHAR(50) NOT NULL,
    correlation_id VARCHAR(100),
    status VARCHAR(50) NOT NULL,
    stage VARCHAR(50),
    s3_bucket VARCHAR(255),
    s3_request_key VARCHAR(500),
    s3_response_key VARCHAR(500),
    provider_npi VARCHAR(10),
    payer_id VARCHAR(50),
    created_at TIMESTAMP WITH TIME ZONE DEFAULT NOW(),
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT NOW(),
    completed_at TIMESTAMP WITH TIME ZONE,
    error_code VARCHAR(50),
    error_message TEXT,
    retry_count INTEGER DEFAULT 0,
    metadata JSONB
);
CREATE INDEX idx_request_tracker_tenant ON document.request_tracker(tenant);
CREATE INDEX idx_request_tracker_status ON document.request_tracker(status);
CREATE INDEX idx_request_tracker_created ON document.request_tracker(created_at);
CREATE TABLE document.outbox (
    id BIGSERIAL PRIMARY KEY,
    queue_name VARCHAR(255) NOT NULL,
    message_body TEXT NOT NULL,
    processed BOOLEAN DEFAULT FALSE,
    processed_at TIMESTAMP WITH TIME ZONE,
    retry_count INTEGER DEFAULT 0,
    last_error TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT NOW(),
    sequence_number BIGINT
);
CREATE TABLE document.audit_log (
    id BIGSERIAL PRIMARY KEY,
    pagw_id VARCHAR(50),
    event_type VARCHAR(100) NOT NULL,
    event_subtype VARCHAR(100),
    actor_type VARCHAR(50),
    actor_id VARCHAR(100),
    resource_type VARCHAR(100),
    resource_id VARCHAR(255),
    details JSONB,
    timestamp TIMESTAMP WITH TIME ZONE DEFAULT NOW(),
    service_name VARCHAR(100),
    service_version VARCHAR(20)
);
CREATE INDEX idx_audit_log_pagw_id ON document.audit_log(pagw_id);
CREATE INDEX idx_audit_log_timestamp ON document.audit_log(timestamp);
CREATE INDEX idx_audit_log_event_type ON document.audit_log(event_type);
"""
# The two tables that the document only draws: their primary key and columns.
DRAWN_TABLES = {
    "provider_registry": ("npi", {"npi", "name", "type", "credentials_arn"}),
    "payer_config": ("payer_id", {"payer_id", "name", "api_endpoint", "auth_type", "credentials_arn"}),
}
COLUMNS = """
SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = %s
"""
INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %s"


@pytest.fixture(scope="module")
def database() -> str:
    url = create_database(pagw)
    with connect(url) as connection:
        connection.execute(DOCUMENT)
    return url


@pytest.fixture(scope="module")
def catalogue(database: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(database) as connection:
        yield connection


def list_columns(catalogue: psycopg.Connection[Any], schema: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return type, length, nullability and default of each (table, column) of a schema."""
    return {(row[0], row[1]): row[2:] for row in catalogue.execute(COLUMNS, (schema,))}


@pytest.mark.proves("PG-12", "PG-15", "PG-17", "PG-X12")
def test_every_documented_column_exists_with_its_type(catalogue: psycopg.Connection[Any]) -> None:
    ours, documents = list_columns(catalogue, "pagw"), list_columns(catalogue, "document")
    assert len(documents) == 17 + 9 + 12
    for place, (kind, length, nullable, _) in documents.items():
        assert ours[place][:2] == (kind, length), place
        # Ours may be stricter but not laxer.
        assert nullable == "YES" or ours[place][2] == "NO", place
    added = {place for place in ours if place[0] == "audit_log" and place not in documents}
    assert added == {("audit_log", "event_uuid"), ("audit_log", "tenant")}


@pytest.mark.proves("PG-12", "PG-15")
def test_column_defaults_match_the_document(catalogue: psycopg.Connection[Any]) -> None:
    ours = list_columns(catalogue, "pagw")
    for table, column, default in (
        ("request_tracker", "created_at", "now()"),
        ("request_tracker", "updated_at", "now()"),
        ("request_tracker", "retry_count", "0"),
        ("audit_log", "timestamp", "now()"),
        ("outbox", "processed", "false"),
        ("outbox", "retry_count", "0"),
    ):
        assert ours[table, column][3] == default
    for table in ("outbox", "audit_log"):
        assert ours[table, "id"][0] == "bigint" and "nextval" in ours[table, "id"][3]


@pytest.mark.proves("PG-13", "PG-16", "PG-18", "PG-X10")
def test_every_documented_index_exists_and_the_outbox_index_is_partial(
    catalogue: psycopg.Connection[Any],
) -> None:
    def list_indexes(schema: str) -> dict[str, str]:
        found = catalogue.execute(INDEXES, (schema,))
        return {name: re.sub(rf"\b{schema}\.", "", definition) for _, name, definition in found}

    ours, documents = list_indexes("pagw"), list_indexes("document")
    named = {name for name in documents if name.startswith("idx_")}
    assert len(named) == 6
    assert {name: documents[name] for name in named} == {name: ours[name] for name in named}
    assert ours["outbox_unprocessed"].endswith("(id) WHERE (NOT processed)")
    primary = {name: ours[name].rsplit(" ", 1)[1] for name in ours if name.endswith("_pkey")}
    assert primary["request_tracker_pkey"] == "(pagw_id)"
    assert primary["outbox_pkey"] == primary["audit_log_pkey"] == "(id)"


@pytest.mark.proves("PG-20", "PG-21", "PG-X29", "PG-X12")
def test_registries_have_the_drawn_columns_and_keys(catalogue: psycopg.Connection[Any]) -> None:
    ours = list_columns(catalogue, "pagw")
    for table, (key, wanted) in DRAWN_TABLES.items():
        assert wanted <= {column for name, column in ours if name == table}
        [(definition,)] = catalogue.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexname = %s", (f"{table}_pkey",)
        ).fetchall()
        assert definition.endswith(f"({key})")
    assert ours["provider_registry", "endpoints"][0] == "jsonb"


@pytest.mark.proves("PG-17", "PG-X13", "PG-X28")
def test_database_refuses_invalid_actors_statuses_npis_and_times(catalogue: psycopg.Connection[Any]) -> None:
    for statement in (
        "INSERT INTO pagw.audit_log (event_type, actor_type, service_name, service_version, event_uuid) "
        "VALUES ('X', 'robot', 's', '1', 'u')",
        "INSERT INTO pagw.request_tracker (pagw_id, tenant, status, due_at) VALUES ('P', 'acme', 'LOST', "
        "'2026-01-01')",
        "INSERT INTO pagw.provider_registry (npi, name) VALUES ('12345', 'Clinic')",
        # In UTC these fall into years that no program parses: one would make every query of its rows fail.
        "INSERT INTO pagw.request_tracker (pagw_id, tenant, status, due_at, decided_at) "
        "VALUES ('P', 'acme', 'COMPLETED', '2026-01-01', '9999-12-31T23:59:59-14:00')",
        "INSERT INTO pagw.subscriptions (subscription_id, tenant, status, endpoint, content, created_at, "
        "updated_at, ends_at) VALUES ('s', 'acme', 'active', 'x', 'x', '2026-01-01', '2026-01-01', "
        "'9999-12-31T23:59:59-14:00')",
    ):
        with pytest.raises(psycopg.errors.CheckViolation):
            catalogue.execute(statement)
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        catalogue.execute("INSERT INTO pagw.provider_registry (npi, name) VALUES ('12345678931', 'Clinic')")


async def test_every_statement_returns_the_columns_of_its_row(database: str) -> None:
    async def check() -> list[Any]:
        async with open_stores(SYSTEM, replace(MEMORY_SETTINGS, sql=database)) as stores:
            return await check_statements(stores, SYSTEM.patterns)

    assert await check() == []
    on_sql = [each.id for each in SYSTEM.patterns if isinstance(each.build_example(), SqlOperation)]
    assert {"S1", "M8", "R15", "H1", "OB2", "IN1"} <= set(on_sql)


@pytest.mark.proves("PG-19")
def test_no_statement_changes_the_audit_and_only_retention_deletes_from_it() -> None:
    by_verb: dict[str, set[str]] = {}
    for each in SYSTEM.patterns:
        operation = each.build_example()
        if isinstance(operation, SqlOperation) and operation.resource == "pagw.audit_log":
            names = {component.name for component in SYSTEM.find_components(each)}
            by_verb.setdefault(operation.kind, set()).update(names)
    assert set(by_verb) == {"SELECT", "INSERT", "DELETE"}
    assert by_verb["DELETE"] == {"operator", "sweeper"}
