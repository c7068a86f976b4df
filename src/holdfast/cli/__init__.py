"""The command line: a thin host that reads options and settings and calls the rooms below it.

`app.py` holds the application and its list of commands, `commands/` one module per command, `misuse.py` and
`extras.py` what stops one before it starts, `credentials.py` who may call the endpoint.
"""

from __future__ import annotations

from holdfast.cli.app import main

__all__ = ["main"]
