"""Migration 0001 of the test system `surgery`: create visits and prescriptions."""

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.execute(
        "CREATE TABLE surgery.visits (id BIGSERIAL PRIMARY KEY, patient TEXT NOT NULL, status TEXT NOT NULL,"
        " begun_at TIMESTAMPTZ NOT NULL)"
    )
    op.execute(
        "CREATE TABLE surgery.prescriptions (id BIGSERIAL PRIMARY KEY, visit BIGINT NOT NULL, drug TEXT NOT "
        "NULL)"
    )
