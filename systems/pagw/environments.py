"""The environments of the gateway: in which region each runs, and so what its buckets are called.

The design document writes `useast2` into every bucket's name, also of those that run in us-east-1. Here the digit is
that of the region; what is in no table runs where the table's `local` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Environment:
    """One row of the document's table. `database` is the host of the writer, a star where each cluster has its own."""

    name: str
    region: str
    database: str

    @property
    def idempotency_table(self) -> str:
        return f"pagw-idempotency-{self.name}"

    @property
    def region_digit(self) -> str:
        return self.region[-1]


ENVIRONMENTS: Final = {
    each.name: each
    for each in (
        Environment("local", "us-east-1", "localhost:5432"),
        Environment("dev", "us-east-2", "*.us-east-2.rds.amazonaws.com"),
        Environment("sit", "us-east-2", "*.us-east-2.rds.amazonaws.com"),
        Environment("preprod", "us-east-1", "*.us-east-1.rds.amazonaws.com"),
        Environment("prod", "us-east-1", "*.us-east-1.rds.amazonaws.com"),
    )
}
LOCAL: Final = ENVIRONMENTS["local"]


def environment_of(name: str) -> Environment:
    """That of the table, or one like `local` under its own name."""
    return ENVIRONMENTS.get(name) or Environment(name or LOCAL.name, LOCAL.region, LOCAL.database)


def request_bucket(environment: str) -> str:
    """Where bundles, attachments and answers are: with PHI."""
    where = environment_of(environment)
    return f"crln-pagw-{where.name}-dataz-gbd-phi-useast{where.region_digit}"


def audit_bucket(environment: str) -> str:
    where = environment_of(environment)
    return f"crln-pagw-{where.name}-logz-nogbd-nophi-useast{where.region_digit}"
