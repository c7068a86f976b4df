"""The sandbox PAS payer's notifications: one per decision, retried until the subscriber accepts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from holdfast_demo.pagw.sandbox.payer_callbacks import SUCCESSES, PayerCallbacks
from holdfast_demo.pagw.sandbox.payer_rules import to_datetime
from pagw.domain.fhir.exact_json import dump_exact
from pagw.domain.fhir.responses.notifications import build_notification
from pagw.domain.fhir.subscriptions import SubscriptionRequest
from pagw.workers.webhook_sender import parse_headers


@dataclass
class PasSubscription:
    """A subscriber. `events` counts its notifications."""

    url: str
    wanted: SubscriptionRequest
    events: int = 0

    def covers(self, organization: str) -> bool:
        """Return whether the subscription is to this organization's requests."""
        return self.wanted.organization in ("*", organization)


@dataclass
class PasNotifications(PayerCallbacks):
    """Sends notifications under one id each, with the headers that the subscriber asked for."""

    _subscriptions: dict[str, PasSubscription] = field(default_factory=dict, repr=False)

    def notify(
        self,
        id: str,
        subscription: PasSubscription,
        response: dict[str, Any],
        on_delivered: Callable[[], None],
    ) -> None:
        """Start a notification unless it is in progress."""
        if id in self._tasks:
            return
        subscription.events += 1
        self._subscriptions[id] = subscription
        bundle = build_notification(
            response,
            subscription_url=subscription.url,
            event_number=subscription.events,
            at=to_datetime(self.clock.now()),
            id=id,
        )
        self.call_with(id, subscription.wanted.endpoint, dump_exact(bundle), on_delivered)

    async def send(self, subscription: PasSubscription, body: bytes) -> bool:
        """Send one body to a subscriber. Return whether it was accepted."""
        if self._http is None:
            return False
        headers = parse_headers(subscription.wanted.headers)
        try:
            answer = await self._http.post(subscription.wanted.endpoint, content=body, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return False
        return answer.status_code in SUCCESSES

    async def _try_delivery(self, http: httpx2.AsyncClient, id: str, url: str, body: bytes) -> bool:
        """Send the notification once. Return whether it was accepted."""
        return await self.send(self._subscriptions[id], body)
