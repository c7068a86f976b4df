"""AgenticPM: an autonomous project manager that never forgets, on one table."""

from __future__ import annotations

from agenticpm import patterns
from agenticpm.model import contents, table
from agenticpm.patterns import LEASE
from holdfast import System, patterns_in

SYSTEM = System(
    name="agenticpm",
    title="AgenticPM",
    purpose="An autonomous project manager: watches the tracker, keeps delivery state, RAID, decisions and backlog, escalates",
    tables=(table,),
    patterns=(*patterns_in(patterns), *LEASE.patterns),
    buckets=(contents,),
    extras=("objects", "agenticpm"),
)
