"""The commands of systems: `holdfast SYSTEM WORDS …`, built from a system's functions when called.

`groups` adds a group for each installed system next to Holdfast's own commands, without loading any.
`parameters` turns a function's signature into arguments and options, `callbacks` calls the function on the
configured stores, and `results` prints what it returned.
"""

from __future__ import annotations

from holdfast.cli.system_commands.groups import HoldfastGroup, find_shadowed_systems

__all__ = ["HoldfastGroup", "find_shadowed_systems"]
