"""The outside parties as a process has them open: each by its stored credentials, opened when first wanted.

Credentials that were changed take effect at the next use: a party is opened anew when its configuration is newer.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Self, cast

from agenticpm import integrations, patterns
from agenticpm.connectors.opening import open_party, sandbox_credentials
from agenticpm.model import Integration, IntegrationStatus, Source
from agenticpm.tickets import Mailbox, Mailer, Tracker
from holdfast import Stores, open_cipher
from holdfast.errors import NotFound


@dataclass
class _Open:
    since: datetime | None
    site: str
    party: Any
    stack: AsyncExitStack


@dataclass
class Parties:
    """Enter it for as long as a process runs."""

    stores: Stores
    cipher: Any = None
    _open: dict[Integration, _Open] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        self.cipher = self.cipher or open_cipher()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._open.values():
            await each.stack.aclose()
        self._open.clear()

    async def tracker(self, source: Source) -> Tracker:
        return cast(Tracker, await self.party(Integration(source)))

    async def mailer(self) -> Mailer:
        return cast(Mailer, await self.party(Integration.resend))

    async def mailbox(self) -> Mailbox:
        return cast(Mailbox, await self.party(Integration.outlook))

    async def party(self, integration: Integration) -> Any:
        """Raises NotFound where it is not configured, or was switched off."""
        config = await self.stores.run(patterns.integration_config(integration))
        if config is None and (address := integrations.stand_in(integration)) is not None:
            return await self._stood_in(integration, address)
        if config is None or config.status is IntegrationStatus.inactive:
            what = "not configured" if config is None else "switched off"
            raise NotFound(
                f"{integration} is {what}: put its credentials with "
                f"`holdfast agenticpm integrations put {integration}`."
            )
        known = self._open.get(integration)
        if known is not None and known.since == config.updated_at:
            return known.party
        if known is not None:
            del self._open[integration]
            await known.stack.aclose()
        credentials = integrations.decrypted(self.stores, self.cipher, config)
        site = integrations.site_of(credentials)
        return await self._opened(integration, credentials, site, config.updated_at)

    async def site(self, integration: Integration) -> str | None:
        """Where it would lead if it were asked now, for what is held for it. Nobody is asked."""
        return await integrations.site_in_effect(self.stores, integration)

    def site_open(self, integration: Integration) -> str | None:
        """Where the party leads that `party` has given."""
        known = self._open.get(integration)
        return None if known is None else known.site

    async def _stood_in(self, integration: Integration, address: str) -> Any:
        """The sandbox whose address `holdfast up` has set, where nobody has put credentials."""
        if (known := self._open.get(integration)) is not None:
            return known.party
        credentials = sandbox_credentials(integration, address)
        return await self._opened(integration, credentials, integrations.SANDBOX, None)

    async def _opened(
        self, integration: Integration, credentials: dict[str, Any], site: str, since: datetime | None
    ) -> Any:
        stack = AsyncExitStack()
        opening: AbstractAsyncContextManager[Any] = open_party(
            integration, credentials, clock=self.stores.clock
        )
        party = await stack.enter_async_context(opening)
        self._open[integration] = _Open(since, site, party, stack)
        return party
