"""What the overview stores: one record for each sample, and the lease of the process that samples."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.guarantees import Lease, LeaseRecord
from holdfast.model.entities import Attr, Entity, Key, Lifetime, Put, Query, attr
from holdfast.model.patterns import Rate, pattern
from holdfast.model.tables import Table

SAMPLE_EVERY_S: Final = 15.0
RETENTION: Final = timedelta(hours=1)
# Longer than a sample takes, and short enough that another console soon takes over from one that died.
LEASE_S: Final = 30.0

samples_table = Table(
    "HoldfastConsoleSamples",
    partition="series",
    sort="place",
    ttl="expiresAt",
    purpose="The last hour of the overview",
)


class ConsoleSample(Entity, table=samples_table):
    """The figures of every system at one time, as JSON (`overview/samples.py`). It holds no personal data."""

    at: Attr[datetime] = attr()
    content: Attr[str] = attr()

    of = Key("SAMPLES", at)
    lives = Lifetime(at, RETENTION)


class SamplerLease(LeaseRecord, table=samples_table):
    """The lease of the one console process that samples."""

    name: Attr[str] = attr()

    of = Key("LEASES", name)


_SAMPLE: Final = Rate(per="sample")
_NOON: Final = datetime(2026, 11, 18, 12, tzinfo=UTC)


@pattern("CO1", "Keep a sample", rate=_SAMPLE, example=lambda: (ConsoleSample(at=_NOON, content="{}"),))
def keep_sample(sample: ConsoleSample) -> Put[ConsoleSample]:
    return ConsoleSample.put(sample)


@pattern("CO2", "The samples since a time", rate=_SAMPLE, example=(_NOON,))
def list_samples(since: datetime) -> Query[ConsoleSample]:
    return ConsoleSample.of().since(since)


SAMPLER: Final = Lease(SamplerLease, prefix="CL", rate=_SAMPLE, lease_s=LEASE_S)
