"""The name under which pip installs the library, for messages that say what to install."""

from __future__ import annotations

from typing import Final

DISTRIBUTION: Final = "holdfast-state"


def format_install_command(*extras: str) -> str:
    """Return the command that installs the library with these extras: `pip install 'holdfast-state[sql]'`."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"
