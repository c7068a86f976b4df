"""Processes for `test_backup_killed.py`: senders and receivers, and backups that kill themselves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from holdfast.config.settings import Settings
from holdfast.runtime.folder_backups import back_up_folder, restore_folder

from .parcels import Depot

NEVER = 0


async def main(role: str, data: Path, *arguments: object) -> None:
    """Run one role: `send` and `receive` until they are killed; `backup` and `restore` once."""
    match role, arguments:
        case "send", (str(name), bool(with_sql)):
            depot = Depot(data, with_sql=with_sql)
            for number in range(1_000_000):
                await depot.send(f"{name}-{number}")
                if number == 0:
                    print("ready", flush=True)  # noqa: T201
        case "receive", (bool(with_sql),):
            depot = Depot(data, with_sql=with_sql)
            while True:
                await depot.receive()
        case "backup", (Path() as target, int(kill_at)):
            counter = Steps(kill_at)
            back_up_folder(Settings().in_folder(data), target, with_keys=True, progress=counter.count)
            print(counter.done, flush=True)  # noqa: T201
        case "restore", (Path() as backup, int(kill_at)):
            counter = Steps(kill_at)
            restore_folder(backup, data, settings=Settings(), verify=True, progress=counter.count)
            print(counter.done, flush=True)  # noqa: T201


class Steps:
    """Counts the reported steps of an operation, and kills the process at one of them."""

    def __init__(self, kill_at: int) -> None:
        self.done, self._kill_at = 0, kill_at

    def count(self, task: str, done: int, total: int) -> None:
        self.done += 1
        if self.done == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
