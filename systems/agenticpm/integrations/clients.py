"""The open clients of one process: each is opened with its stored credentials on first use, and cached.

Changed credentials take effect at the next use: a client is reopened if its configuration is newer.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Self, cast

from agenticpm.domain.tickets import Mailbox, Mailer, Tracker
from agenticpm.integrations.factory import build_sandbox_credentials, open_client
from agenticpm.model import integration_settings, patterns
from agenticpm.model.entities import Integration, IntegrationStatus, Source
from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.runtime import open_cipher


@dataclass
class _OpenClient:
    """An open client. `configured_at` is the `updatedAt` of its configuration, None for a sandbox."""

    configured_at: datetime | None
    site: str
    client: Any
    stack: AsyncExitStack


@dataclass
class IntegrationClients:
    """The open clients. Use it as a context manager for the lifetime of the process: leaving closes them."""

    stores: Stores
    cipher: Any = None
    _open: dict[Integration, _OpenClient] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        self.cipher = self.cipher or open_cipher()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._open.values():
            await each.stack.aclose()
        self._open.clear()

    async def get_tracker(self, source: Source) -> Tracker:
        """Return the tracker's client; see `get_client`."""
        return cast(Tracker, await self.get_client(Integration(source)))

    async def get_mailer(self) -> Mailer:
        return cast(Mailer, await self.get_client(Integration.resend))

    async def get_mailbox(self) -> Mailbox:
        return cast(Mailbox, await self.get_client(Integration.outlook))

    async def get_client(self, integration: Integration) -> Any:
        """Return the client of an integration, opened if needed; the sandbox's if there are no credentials.

        Raise NotFound if it is not configured or is switched off.
        """
        config = await self.stores.run(patterns.integration_config(integration))
        if config is None and (address := integration_settings.get_sandbox_address(integration)) is not None:
            return await self._get_sandbox_client(integration, address)
        if config is None or config.status is IntegrationStatus.inactive:
            what = "not configured" if config is None else "switched off"
            raise NotFound(
                f"{integration} is {what}. Store its credentials with "
                f"`holdfast agenticpm integrations put {integration}`."
            )
        known = self._open.get(integration)
        if known is not None and known.configured_at == config.updated_at:
            return known.client
        if known is not None:
            del self._open[integration]
            await known.stack.aclose()
        credentials = integration_settings.decrypt(self.stores, self.cipher, config)
        site = integration_settings.compute_site(credentials)
        return await self._open_client(integration, credentials, site, config.updated_at)

    async def get_site(self, integration: Integration) -> str | None:
        """Return the site that the integration points to now, without calling it, or None."""
        return await integration_settings.get_current_site(self.stores, integration)

    def get_open_site(self, integration: Integration) -> str | None:
        """Return the site of the client that `get_client` has opened, or None."""
        known = self._open.get(integration)
        return None if known is None else known.site

    async def _get_sandbox_client(self, integration: Integration, address: str) -> Any:
        """Return the client of the sandbox whose address `holdfast up` has set."""
        if (known := self._open.get(integration)) is not None:
            return known.client
        credentials = build_sandbox_credentials(integration, address)
        return await self._open_client(integration, credentials, integration_settings.SANDBOX_SITE, None)

    async def _open_client(
        self, integration: Integration, credentials: dict[str, Any], site: str, configured_at: datetime | None
    ) -> Any:
        """Open a client and remember it with its site."""
        stack = AsyncExitStack()
        opening: AbstractAsyncContextManager[Any] = open_client(
            integration, credentials, clock=self.stores.clock
        )
        client = await stack.enter_async_context(opening)
        self._open[integration] = _OpenClient(configured_at, site, client, stack)
        return client
