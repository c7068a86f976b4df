"""The gateway's environments: region, database host, table and bucket names.

The design document writes `useast2` into every bucket name, also of environments in us-east-1. Here the digit
is that of the region. An environment outside the table runs where `local` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Environment:
    """One row of the document's table. `database` is the writer's host, with a star if each cluster has its
    own.
    """

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


def get_environment(name: str) -> Environment:
    """Return the environment from the table, or one like `local` under this name."""
    return ENVIRONMENTS.get(name) or Environment(name or LOCAL.name, LOCAL.region, LOCAL.database)


def get_request_bucket_name(environment: str) -> str:
    """Return the name of the bucket for bundles, attachments and responses, which hold PHI."""
    where = get_environment(environment)
    return f"crln-pagw-{where.name}-dataz-gbd-phi-useast{where.region_digit}"


def get_audit_bucket_name(environment: str) -> str:
    """Return the name of the bucket for audit events."""
    where = get_environment(environment)
    return f"crln-pagw-{where.name}-logz-nogbd-nophi-useast{where.region_digit}"
