"""The argument `--data DIR`: a data folder that exists."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.errors import SettingsError


def require_data_folder(data: Path) -> Path:
    """Return the folder. Raise `SettingsError` if it is not an existing folder."""
    if not data.is_dir():
        problem = "is not a folder" if data.exists() else "does not exist"
        raise SettingsError(f"The data folder {data} {problem}: give an existing folder with --data.")
    return data
