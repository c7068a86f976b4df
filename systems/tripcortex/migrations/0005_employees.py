"""Migration: create the directory of employees, with managers, levels, roles and delegates."""

from __future__ import annotations

from typing import Final

from alembic import op

revision = "0005"
down_revision = "0004"

# Rows that refer to a deleted employee lose the reference.
EMPLOYEES: Final = """
CREATE TABLE tripcortex.employees (
    id VARCHAR(128) PRIMARY KEY,
    user_name VARCHAR(255) NOT NULL,
    external_id VARCHAR(255),
    email VARCHAR(255),
    display_name VARCHAR(255),
    manager_id VARCHAR(128) REFERENCES tripcortex.employees (id) ON DELETE SET NULL,
    level VARCHAR(64),
    department VARCHAR(255),
    roles TEXT[] NOT NULL DEFAULT '{}',
    delegate_id VARCHAR(128) REFERENCES tripcortex.employees (id) ON DELETE SET NULL,
    delegate_from TIMESTAMPTZ,
    delegate_until TIMESTAMPTZ,
    active BOOLEAN NOT NULL DEFAULT TRUE,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    CONSTRAINT employees_not_their_own_manager CHECK (manager_id <> id),
    CONSTRAINT employees_not_their_own_delegate CHECK (delegate_id <> id)
)
"""
INDEXES: Final = (
    "CREATE UNIQUE INDEX uq_employees_user_name ON tripcortex.employees (lower(user_name))",
    "CREATE INDEX idx_employees_external_id ON tripcortex.employees (external_id)",
    "CREATE INDEX idx_employees_manager_id ON tripcortex.employees (manager_id)",
    "CREATE INDEX idx_employees_delegate_id ON tripcortex.employees (delegate_id)",
    "CREATE INDEX idx_employees_roles ON tripcortex.employees USING gin (roles)",
)


def upgrade() -> None:
    for statement in (EMPLOYEES, *INDEXES):
        op.execute(statement)
