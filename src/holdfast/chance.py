"""Chance for what must be unique or spread, and is no secret: seeded by the system once, and not asked for every time.

Not the generator that everybody shares: a program, or a test, that seeds that one must get what it expects of it.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

CHANCE: Final = Random(os.urandom(32))
# A copy of the process would draw the same.
os.register_at_fork(after_in_child=lambda: CHANCE.seed(os.urandom(32)))
