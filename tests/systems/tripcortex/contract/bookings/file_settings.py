"""Settings for embedded engines on files in one folder, which several processes and threads may open."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from holdfast.config.settings import SQLITE_SCHEME, Settings
from holdfast.runtime.factory import MEMORY_SETTINGS


def make_settings(folder: Path) -> Settings:
    return dataclasses.replace(
        MEMORY_SETTINGS,
        tables=f"{SQLITE_SCHEME}{folder / 'tables.db'}",
        queues=f"{SQLITE_SCHEME}{folder / 'queues.db'}",
        environment="local",
    )
