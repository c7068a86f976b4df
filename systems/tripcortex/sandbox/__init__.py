"""The stand-ins for the outside parties of Trip Cortex, spoken to over real HTTP: the travel portal, the issuer of tokens."""

from __future__ import annotations
