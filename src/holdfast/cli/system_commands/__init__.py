"""The commands that systems bring: `holdfast SYSTEM WORDS …`, made of their functions when they are called.

`mounting` puts a group for each installed system beside holdfast's own commands, without loading any; `parameters` makes
arguments and options of a function's signature; `calling` runs it on the configured stores; `answers` shows what it gave.
"""

from __future__ import annotations

from holdfast.cli.system_commands.mounting import HoldfastGroup, shadowed_systems

__all__ = ["HoldfastGroup", "shadowed_systems"]
