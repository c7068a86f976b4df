"""Intents: decide what an employee's sentence asks for, before anything is planned.

`classifier.classify` returns one of six intents, and a question where the words leave it open. The modules
`*_signals` have the words that it looks for; `quoted_text` removes what the employee only quotes.
"""

from __future__ import annotations

from tripcortex.domain.intents.classifier import Classification, classify
from tripcortex.domain.intents.ports import Intent

__all__ = ["Classification", "Intent", "classify"]
