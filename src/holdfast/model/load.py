"""The expected load of a system: how often each event occurs, for the design check and the cost estimate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Volume:
    """How often an event occurs per month, and over how many partition keys it spreads.

    `hottest` is the share that falls on the busiest key; None means an even spread.
    """

    per_month: float
    distinct_keys: int = 1
    hottest: float | None = None

    @property
    def hottest_share(self) -> float:
        """The share of the busiest key: as declared, or an even one."""
        return self.hottest if self.hottest is not None else 1 / max(1, self.distinct_keys)


@dataclass(frozen=True)
class Load:
    """The expected load: the volume of each event that rates refer to, and peak over average."""

    volumes: Mapping[str, Volume] = field(default_factory=dict)
    peak_factor: float = 1.0
    # The final size of items that grow, in bytes, by table name.
    max_item_bytes: Mapping[str, int] = field(default_factory=dict)
    # The number of partition keys of a table or index, by name, if it is smaller than the volume's
    # `distinct_keys`.
    distinct_keys: Mapping[str, int] = field(default_factory=dict)
    # Partition keys that concentrate traffic, by table or index name: `GLOBAL`, or with a star a key that is
    # the same for all at any time, as `EVENT#*` for a day. Keys whose template is constant need not be
    # listed.
    hot_keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # The ids of patterns that run inside transactions: their capacity units are billed twice.
    transacted_patterns: Collection[str] = ()
    # The size in bytes of the item that a pattern writes, by pattern id, if it differs from the example's.
    item_bytes: Mapping[str, int] = field(default_factory=dict)
