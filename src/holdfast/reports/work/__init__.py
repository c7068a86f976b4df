"""The work of a system: the states of its queues, its unsent messages, and why something happened."""

from __future__ import annotations
