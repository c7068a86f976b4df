"""Find the stores that the components of a process use, so that it probes these and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.reports.examples import build_example
from holdfast.reports.resources import CacheKeys, SqlTable, get_resource
from holdfast.runtime.store_probes import UsedStores

if TYPE_CHECKING:
    from holdfast.model.system import System


def find_used_stores(system: System, components: Sequence[str | None]) -> UsedStores:
    """Return what the patterns of these components use; everything if one is None, the whole system."""
    is_whole = None in components
    named = [system.get_component(name) for name in components if name is not None]
    patterns = system.patterns if is_whole else [pattern for each in named for pattern in each.patterns]
    resources = [get_resource(part) for each in patterns for part in build_example(each).parts]
    names = {each.name for each in resources if each is not None}
    return UsedStores(
        tables=[each for each in system.tables if is_whole or each.name in names],
        queues=[each for each in system.queues if is_whole or each.name in names],
        buckets=[each for each in system.buckets if is_whole or each.name in names],
        has_sql=any(isinstance(each, SqlTable) for each in resources),
        has_cache=any(isinstance(each, CacheKeys) for each in resources),
    )
