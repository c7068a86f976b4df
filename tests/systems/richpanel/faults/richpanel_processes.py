"""Harness: the sandbox help desk, the ingress and the workers of the middleware as processes."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx

from holdfast import Stores, get_queue_reports
from holdfast.runtime.system_provisioner import QueueReport
from richpanel.system import SYSTEM
from tests.faults.system_stage import Process, SystemStage

from .richpanel_traffic import START

SECRET = "a-webhook-secret-of-this-test"


class RichpanelProcesses(SystemStage):
    """Processes of one run; `workers` are those alive."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SYSTEM, folder, START, HOLDFAST_SECRET_RICHPANEL_WEBHOOK=SECRET)
        self.workers: list[Process] = []

    def add_worker(self) -> None:
        """Start a worker process, without waiting until it is ready."""
        self.workers.append(self.start_process("worker", "run", "richpanel", "--component", "worker"))

    def await_worker(self, worker: Process) -> None:
        """Wait until a worker process is ready."""
        self.read_first_line(worker)

    def kill(self, worker: Process) -> None:
        """Kill a worker process with SIGKILL. Fail if it had ended before."""
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        assert worker.returncode == -signal.SIGKILL, (
            f"a worker ended before it was killed: {self.read_logs()[-3:]}"
        )
        self.workers.remove(worker)

    def stop_workers(self) -> None:
        """Stop all workers gracefully: each finishes its work."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.communicate(timeout=60)
            assert worker.returncode == 0, self.read_logs()[-3:]
        self.workers.clear()


async def get_queue_report(stores: Stores) -> QueueReport:
    [report] = await get_queue_reports(stores, SYSTEM.queues)
    return report


def make_desk_client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=30)
