"""What leaves each state of a booking: functions from the booking to its next state and the writes that go with it.

    retrieving → planning → validating → searching → (choosing) → committing → confirmed
                                                                        └→ ending: how any of them ends

Each is one of the document's steps and writes its audit entries. `flow.py` says which follows which.
"""

from __future__ import annotations
