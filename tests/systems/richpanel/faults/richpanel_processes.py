"""The sandbox help desk, the ingress and the workers of the middleware as processes, for the fault test."""

from __future__ import annotations

from pathlib import Path

import httpx

from holdfast import Stores
from holdfast.runtime import get_queue_reports
from holdfast.runtime.system_provisioner import QueueReport
from richpanel.system import SYSTEM
from tests.processes import preload
from tests.system_processes import SystemProcesses

from .richpanel_traffic import START

SECRET = "a-webhook-secret-of-this-test"
JUMP_S = 3.0

preload(
    "richpanel.api.routes",
    "richpanel.workers.worker",
    "holdfast_demo.richpanel.sandbox",
    "tests.systems.richpanel.faults.richpanel_preload",
)


class RichpanelProcesses(SystemProcesses):
    """Processes of one run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SYSTEM, folder, START, jump_s=JUMP_S, HOLDFAST_SECRET_RICHPANEL_WEBHOOK=SECRET)

    def add(self) -> None:
        """Start a worker process, without waiting until it is ready."""
        self.add_worker("worker", "worker")


async def get_queue_report(stores: Stores) -> QueueReport:
    [report] = await get_queue_reports(stores, SYSTEM.queues)
    return report


def make_desk_client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=30)
