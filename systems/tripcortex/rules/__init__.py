"""Whether a trip is inside the company's policy: pure decisions over a plan, flights, rules and passages.

    policy.py (machine-readable rules) ┐
                                       ├→ limits.py (the stricter of both, with who says it) → judging.py → options.py
    reading.py (rules in passages)     ┘                                                              └→ approvals.py

Nothing here reads a store or asks anybody: who calls has retrieved the passages and knows the day.
"""

from __future__ import annotations

