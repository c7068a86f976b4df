"""Holdfast: DynamoDB's semantics embedded and durable, and what agents and services build on them.

The package itself exports only its version. Each room has its own front door: `holdfast.errors` for what
can go wrong, `holdfast.stores` for where data lives, `holdfast.wire` for DynamoDB's protocol.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
