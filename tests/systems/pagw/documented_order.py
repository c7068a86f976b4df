"""The statuses of a request and the stages that it passes, in the document's order.

Written out rather than derived from the table under test. A new stage is added here.
"""

from __future__ import annotations

from typing import Final

STATUSES_BEFORE_THE_PAYER: Final = (
    "RECEIVED",
    "PARSED",
    "VALIDATED",
    "ENRICHED",
    "ATTACHMENTS_PROCESSED",
    "CONVERTED",
)
STATUSES_AFTER_THE_PAYER: Final = ("SUBMITTED", "RESPONSE_BUILT", "CALLBACK_SENT", "COMPLETED")
# The audit begins with the end of the intake, which takes the first two steps.
AUDITED_BEFORE_THE_PAYER: Final = STATUSES_BEFORE_THE_PAYER[2:]
STAGES: Final = (
    "request-enricher",
    "attachment-handler",
    "request-converter",
    "api-connector",
    "response-builder",
    "callback-handler",
    "subscription-handler",
)
