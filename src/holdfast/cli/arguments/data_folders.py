"""Arguments that name folders: `--data DIR` with a data folder that exists, and folders to write."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.usage_error import UsageError
from holdfast.core.errors import SettingsError


def parse_folder(text: str) -> Path:
    """Parse the name of a folder. Raise `UsageError` if it is empty: a path would take it for this folder."""
    if not text:
        raise UsageError("Invalid folder '': expected a path. Give one, or a dot for the current folder.")
    return Path(text)


def require_data_folder(data: Path) -> Path:
    """Return the folder. Raise `SettingsError` if it is not an existing folder."""
    if not data.is_dir():
        problem = "is not a folder" if data.exists() else "does not exist"
        raise SettingsError(f"The data folder {data} {problem}: give an existing folder with --data.")
    return data
