"""Load the embedding before Trip Cortex's processes are forked."""

from __future__ import annotations

from tripcortex.policies.embedding import build_local_embedding

build_local_embedding()
