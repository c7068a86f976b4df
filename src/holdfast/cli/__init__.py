"""The command line: a thin host that reads options and settings and calls the packages below it.

`app.py` holds the application and its list of commands. `commands/` has one module per command, which
`deferred_command.py` imports when the command is called. `system_commands/` turns the functions of a system
into commands. `arguments/` parses what the user typed, `output/` prints results, `health/` inspects stores,
`processes/` plans and supervises processes, and `stories/` runs the demos. `usage_error.py` and `extras.py`
stop a command before it starts.
"""

from __future__ import annotations

from holdfast.cli.app import main

__all__ = ["main"]
