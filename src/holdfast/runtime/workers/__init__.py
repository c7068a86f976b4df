"""Workers: run a component's consumers and schedules until they are stopped.

`worker` starts them all → `consumer` receives messages from a queue and keeps each group in order →
`in_flight_message` handles one message: hidden while it is handled, deleted after success, released after a
failure. `scheduler` runs recurring tasks.
"""

from __future__ import annotations

from holdfast.runtime.workers.worker import WorkerGroup, run_worker

__all__ = ["WorkerGroup", "run_worker"]
