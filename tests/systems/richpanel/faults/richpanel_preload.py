"""Train the classifier before the middleware's processes are forked."""

from __future__ import annotations

from richpanel.domain.intents import get_intent_classifier

get_intent_classifier()
