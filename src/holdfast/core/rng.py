"""The random number generator `RNG`, for values that must be unique or spread but need not be secret.

It is separate from the `random` module's shared generator: a program or test that seeds that one gets the
sequence it expects. It is seeded from the operating system, again in each forked child.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

RNG: Final = Random(os.urandom(32))
# A forked child would draw the same numbers. Windows does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: RNG.seed(os.urandom(32)))
