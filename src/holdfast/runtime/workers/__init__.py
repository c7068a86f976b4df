"""Workers: a component's consumers and schedules, run until they are told to stop.

`work` starts them all → `consuming` takes messages off a queue and keeps each group in order → `handling` does one
message: hidden while it is worked on, deleted after success, given back after a failure. `scheduling` does what is
due again and again.
"""

from __future__ import annotations

from holdfast.runtime.workers.working import RECEIVE_WAIT_S, WORK_GRACE_S, Work, work

__all__ = ["RECEIVE_WAIT_S", "WORK_GRACE_S", "Work", "work"]
