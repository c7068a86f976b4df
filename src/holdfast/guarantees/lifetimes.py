"""How long the records of a guarantee are kept, said on their entities, where reports look for it.

The end of such a record is written by its guarantee and not by a `Lifetime`. `__kept_s__` is how long after its last
change it is kept at most, None where that depends on what happens; `__kept_why__` says it in words.
"""

from __future__ import annotations

from typing import Any

from holdfast.model import Entity


def kept(entity: type[Entity], seconds: float | None, why: str) -> None:
    """Of an entity that several guarantees are declared for, the longest counts."""
    before: Any = entity.__dict__.get("__kept_s__")
    if before is not None and seconds is not None and before >= seconds:
        return
    # Past the model's own way of setting, which knows fields only.
    type.__setattr__(entity, "__kept_s__", seconds)
    type.__setattr__(entity, "__kept_why__", why)
