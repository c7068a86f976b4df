"""The middleware as processes: the help desk's sandbox, the door, workers that are killed; for `test_richpanel_killed.py`."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx

from holdfast import Stores, get_queue_reports
from holdfast.runtime.system_provisioner import QueueReport
from richpanel.system import SYSTEM

from .richpanel_traffic import START
from .staged import Process, Staged

SECRET = "a-webhook-secret-of-this-test"


class Stage(Staged):
    """Its workers are those that live now."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SYSTEM, folder, START, HOLDFAST_SECRET_RICHPANEL_WEBHOOK=SECRET)
        self.workers: list[Process] = []

    def add_worker(self) -> None:
        self.workers.append(self.started("worker", "run", "richpanel", "--component", "worker"))

    def await_worker(self, worker: Process) -> None:
        self.first_line(worker)

    def kill(self, worker: Process) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        assert worker.returncode == -signal.SIGKILL, f"a worker had ended by itself: {self.said()[-3:]}"
        self.workers.remove(worker)

    def stop_workers(self) -> None:
        """In good order: each brings to its end what it has in hand."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.communicate(timeout=60)
            assert worker.returncode == 0, self.said()[-3:]
        self.workers.clear()


async def queue_now(stores: Stores) -> QueueReport:
    [report] = await get_queue_reports(stores, SYSTEM.queues)
    return report


def desk_client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=30)
