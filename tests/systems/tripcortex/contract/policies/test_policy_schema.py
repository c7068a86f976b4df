"""The schema that the migrations create, compared with the document's DDL in a real PostgreSQL catalogue."""

from __future__ import annotations

import importlib
import logging
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import tripcortex.migrations as migrations
from holdfast.runtime import check_statements
from holdfast.stores.sql.postgres import open_postgres
from tests.postgres import connect, create_database
from tests.systems.tripcortex.contract.policies.knowledge_base import Base, make_vector
from tripcortex.model.policies import rules_patterns
from tripcortex.model.policies.patterns import PATTERNS

# The document's DDL, in a schema with another name.
DOCUMENT = """
CREATE SCHEMA document;
CREATE TABLE document.policies (
    id              UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    source_s3_uri   TEXT NOT NULL,
    file_name       VARCHAR(255) NOT NULL,
    status          VARCHAR(20) NOT NULL DEFAULT 'pending'
                    CHECK (status IN ('pending', 'processing', 'ready', 'failed')),
    bda_project_arn VARCHAR(512),
    bda_invocation_arn VARCHAR(512),
    total_pages     INTEGER,
    total_chunks    INTEGER DEFAULT 0,
    uploaded_by     VARCHAR(255),
    error_message   TEXT,
    created_at      TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    version         INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX idx_policies_status ON document.policies (status);
CREATE INDEX idx_policies_uploaded_by ON document.policies (uploaded_by);
CREATE TABLE document.policy_chunks (
    id                  UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    policy_id           UUID NOT NULL REFERENCES document.policies(id) ON DELETE CASCADE,
    content_type        VARCHAR(20) NOT NULL
                        CHECK (content_type IN ('text', 'table', 'figure')),
    content_text        TEXT,
    source_page         INTEGER,
    section_title       VARCHAR(255),
    reading_order       INTEGER,
    bda_entity_id       VARCHAR(255),
    bda_entity_subtype  VARCHAR(50),
    embedding           vector(1024) NOT NULL,
    metadata            JSONB,
    created_at          TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at          TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
CREATE INDEX idx_policy_chunks_embedding
    ON document.policy_chunks USING hnsw (embedding vector_cosine_ops)
    WITH (m = 16, ef_construction = 64);
CREATE INDEX idx_policy_chunks_policy_id
    ON document.policy_chunks (policy_id);
CREATE INDEX idx_policy_chunks_content_type
    ON document.policy_chunks (content_type);
"""
COLUMNS = """
SELECT tab.relname, att.attname, format_type(att.atttypid, att.atttypmod), att.attnotnull,
    pg_get_expr(def.adbin, def.adrelid)
FROM pg_attribute AS att JOIN pg_class AS tab ON tab.oid = att.attrelid AND tab.relkind = 'r'
LEFT JOIN pg_attrdef AS def ON def.adrelid = att.attrelid AND def.adnum = att.attnum
WHERE tab.relnamespace = %s::regnamespace AND att.attnum > 0 AND NOT att.attisdropped
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = %s::regnamespace AND contype IN ('p', 'f', 'c')
"""
INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s"


@pytest.fixture(scope="module")
def catalogue(base: Base) -> Iterator[psycopg.Connection[Any]]:
    """Create the document's tables in the schema `document`, and yield a connection."""
    with connect(base.url) as connection:
        connection.execute(DOCUMENT)
        yield connection


def _strip_schema(schema: str, text: str) -> str:
    """Remove the schema's name before table names."""
    return re.sub(rf"\b{schema}\.", "", text)


@pytest.mark.proves(
    "TC-1",
    "TC-7",
    "TC-8",
    "TC-9",
    "TC-10",
    "TC-11",
    "TC-12",
    "TC-13",
    "TC-14",
    "TC-15",
    "TC-16",
    "TC-17",
    "TC-18",
    "TC-23",
    "TC-26",
    "TC-27",
    "TC-28",
    "TC-29",
    "TC-30",
    "TC-31",
    "TC-33",
    "TC-34",
)
def test_has_every_documented_column_with_type_and_default(catalogue: psycopg.Connection[Any]) -> None:
    def list_columns(schema: str) -> dict[tuple[str, str], tuple[Any, ...]]:
        return {(row[0], row[1]): row[2:] for row in catalogue.execute(COLUMNS, (schema,))}

    ours, documents = list_columns("tripcortex"), list_columns("document")
    assert len(documents) == 13 + 13
    assert {place: ours[place] for place in documents} == documents


@pytest.mark.proves("TC-10", "TC-24", "TC-25")
def test_has_every_documented_constraint(catalogue: psycopg.Connection[Any]) -> None:
    def list_constraints(schema: str) -> set[tuple[str, str, str]]:
        found = catalogue.execute(CONSTRAINTS, (schema,))
        return {
            (_strip_schema(schema, table), name, _strip_schema(schema, text)) for table, name, text in found
        }

    documents = list_constraints("document")
    assert len(documents) == 5
    assert documents <= list_constraints("tripcortex")


@pytest.mark.proves("TC-19", "TC-35", "TC-36", "TC-37", "TC-X17")
def test_has_every_documented_index_with_its_parameters(catalogue: psycopg.Connection[Any]) -> None:
    def list_indexes(schema: str) -> dict[str, str]:
        found = catalogue.execute(INDEXES, (schema,))
        return {name: _strip_schema(schema, text) for name, text in found if name.startswith("idx_")}

    ours, documents = list_indexes("tripcortex"), list_indexes("document")
    assert len(documents) == 5
    assert {name: ours[name] for name in documents} == documents
    assert "m='16', ef_construction='64'" in ours["idx_policy_chunks_embedding"]
    # HNSW, and no index that would need retraining after an ingestion.
    assert not any("ivfflat" in text for text in ours.values())


@pytest.mark.proves("TC-10", "TC-25", "TC-32")
def test_database_rejects_an_invalid_status_content_type_and_width(
    catalogue: psycopg.Connection[Any],
) -> None:
    """It also rejects a missing vector and an unknown policy; a policy's deletion deletes its chunks."""
    [(policy_id, status, version)] = catalogue.execute(
        "INSERT INTO tripcortex.policies (source_s3_uri, file_name) VALUES ('s3://b/k', 'p.pdf') "
        "RETURNING id, status, version"
    ).fetchall()
    assert (status, version) == ("pending", 1)
    for column, value in (("status", "archived"), ("serves", True)):
        with pytest.raises(psycopg.errors.CheckViolation):
            catalogue.execute(
                f"UPDATE tripcortex.policies SET {column} = %s WHERE id = %s".encode(), (value, policy_id)
            )
    chunk = "INSERT INTO tripcortex.policy_chunks (policy_id, content_type, embedding) VALUES (%s, %s, %s)"
    with pytest.raises(psycopg.errors.CheckViolation):
        catalogue.execute(chunk, (policy_id, "video", make_vector(1)))
    with pytest.raises(psycopg.errors.DataException, match="expected 1024 dimensions, not 3"):
        catalogue.execute(chunk, (policy_id, "text", "[1,0,0]"))
    with pytest.raises(psycopg.errors.NotNullViolation):
        catalogue.execute(chunk, (policy_id, "text", None))
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        catalogue.execute(chunk, (uuid4(), "text", make_vector(1)))
    catalogue.execute(chunk, (policy_id, "text", make_vector(1)))
    catalogue.execute("DELETE FROM tripcortex.policies WHERE id = %s", (policy_id,))
    left = catalogue.execute(
        "SELECT count(*) FROM tripcortex.policy_chunks WHERE policy_id = %s", (policy_id,)
    ).fetchone()
    assert left == (0,)


@pytest.mark.proves("TC-103")
def test_every_statement_returns_its_rows_fields(base: Base) -> None:
    assert base.run(check_statements(base.stores, (*PATTERNS, *rules_patterns.PATTERNS))) == []
    assert {"A1", "A2", "A3", "A4", "A5", "A6"} <= {each.id for each in PATTERNS}


@pytest.fixture
def first_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a package with the first revision alone, the schema that the document started from."""
    package = tmp_path / "tripcortex_as_found"
    package.mkdir()
    (package / "__init__.py").write_text("")
    [first] = Path(migrations.__file__).parent.glob("0001_*.py")
    shutil.copy(first, package)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    importlib.invalidate_caches()
    return package.name


@pytest.mark.proves("TC-101", "TC-X26")
async def test_migration_gives_existing_chunks_an_active_policy(
    first_revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = create_database()
    policies = [uuid4(), uuid4()]

    async def migrate_database() -> None:
        engine = open_postgres(url)
        try:
            await engine.migrate("tripcortex", first_revision)
            with connect(url) as connection:
                for page, policy_id in enumerate([policies[0], policies[0], policies[1]], start=1):
                    connection.execute(
                        "INSERT INTO tripcortex.policy_chunks (policy_id, content_type, source_page, "
                        "embedding, created_at) VALUES (%s, 'text', %s, %s, '2025-01-01Z')",
                        (policy_id, page, make_vector(1)),
                    )
            with caplog.at_level(logging.WARNING):
                await engine.migrate("tripcortex", "tripcortex.migrations")
        finally:
            engine.close()

    await migrate_database()
    assert "3 chunks had no policy: created 2 placeholder policies for them." in caplog.text
    with connect(url) as connection:
        found = connection.execute(
            "SELECT id, status, total_chunks, total_pages, serves, document_id, extract(year from "
            "created_at)::int FROM tripcortex.policies ORDER BY total_chunks DESC"
        ).fetchall()
        assert found == [
            (policies[0], "ready", 2, 2, True, policies[0], 2025),
            (policies[1], "ready", 1, 3, True, policies[1], 2025),
        ]
        connection.execute("DELETE FROM tripcortex.policies WHERE id = %s", (policies[0],))
        left = connection.execute("SELECT count(*) FROM tripcortex.policy_chunks").fetchone()
        assert left == (1,)


@pytest.mark.proves("TC-5", "TC-101", "TC-X26")
async def test_dry_run_shows_the_documented_steps_and_counts_orphan_chunks(first_revision: str) -> None:
    async def show_dry_run() -> str:
        engine = open_postgres(fresh)
        try:
            await engine.migrate("tripcortex", first_revision)
            return "\n".join(await engine.migrate("tripcortex", "tripcortex.migrations", dry_run=True))
        finally:
            engine.close()

    fresh = create_database()
    text = await show_dry_run()
    steps = [
        "CREATE TABLE tripcortex.policies",
        "AS orphan_chunks",
        "INSERT INTO tripcortex.policies",
        "ON DELETE CASCADE",
        "CHECK (content_type IN",
        "CREATE INDEX idx_policy_chunks_embedding",
    ]
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    with connect(fresh) as connection:
        assert connection.execute("SELECT to_regclass('tripcortex.policies')").fetchone() == (None,)
