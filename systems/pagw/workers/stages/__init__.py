"""Stages of an accepted request, each the consumer of its own queue.

    enricher → attachment_handler → converter → api_connector → response_builder → callback_handler
             → subscription_handler

The api_connector calls the payer; a payer's callback enters at the callback_handler. `base_stage` is the base
class of the stages, `notifier` delivers webhooks to clients and `audit_archiver` writes audit events to the
audit bucket.
"""
