"""Process that restores a table in place and kills itself after some writes, for `test_restore.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.runtime.recovery import restore_in_place
from tests import processes
from tests.faults.kill_points import kill_this_process

GROUPS = 5


def main(*arguments: str) -> None:
    """Run the `holdfast` command until the fifth group of writes."""
    gather_or_cancel, left = vars(restore_in_place)["gather_or_cancel"], GROUPS

    async def gather_some(writes: Sequence[Any]) -> Any:
        nonlocal left
        left -= 1
        if not left:
            kill_this_process()
        return await gather_or_cancel(writes)

    setattr(restore_in_place, "gather_or_cancel", gather_some)  # noqa: B010
    processes.main(*arguments)
