"""HTTP clients of payers: one for all, and one per client certificate for those that demand mutual TLS.

Certificate and key come from the secret store. OpenSSL reads them from files only, so they are in a private
folder for the moment of loading.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx2

from holdfast.core.errors import SettingsError
from holdfast.runtime import Secrets
from pagw.integrations.payers.config import PayerConfig
from pagw.integrations.payers.connection import make_client

CERTIFICATE_FILE: Final = "client.pem"


@dataclass
class PayerHttpClients:
    """Opens and keeps the HTTP clients. `shared` serves payers without a certificate or authority of their
    own.
    """

    shared: httpx2.AsyncClient
    _by_certificate: dict[str, httpx2.AsyncClient] = field(default_factory=dict, repr=False)

    def get(self, config: PayerConfig, secrets: Secrets) -> httpx2.AsyncClient:
        """Return the client for a payer. Raise `SettingsError` for an invalid certificate, `SecretMissing`
        without one.
        """
        certificate, authority = (
            secrets.get(name).current if name else "" for name in config.certificate_names
        )
        if not certificate and not authority:
            return self.shared
        known_as = hashlib.sha256("\x1f".join((certificate, authority)).encode()).hexdigest()
        if known_as not in self._by_certificate:
            context = _build_context(config, certificate, authority)
            self._by_certificate[known_as] = make_client(verify=context)
        return self._by_certificate[known_as]

    async def close(self) -> None:
        """Close all clients but the shared one."""
        for each in self._by_certificate.values():
            await each.aclose()
        self._by_certificate.clear()


@asynccontextmanager
async def open_http_clients() -> AsyncIterator[PayerHttpClients]:
    """Open the HTTP clients and close them at the end."""
    async with make_client() as shared:
        clients = PayerHttpClients(shared)
        try:
            yield clients
        finally:
            await clients.close()


def _build_context(config: PayerConfig, certificate: str, authority: str) -> ssl.SSLContext:
    """Return the TLS context with the client certificate, and the authorities of the payer's own. Raise
    `SettingsError` if one is invalid.
    """
    try:
        context = ssl.create_default_context(cadata=authority) if authority else _create_default_context()
        if certificate:
            _load_certificate(context, certificate)
    except (ssl.SSLError, ValueError, OSError):
        # OpenSSL's message names files of this machine.
        raise SettingsError(
            f"Invalid client_certificate or server_ca of the payer {config.payer_id}: expected certificates "
            "in PEM, and the private key with the client certificate, not encrypted."
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _create_default_context() -> ssl.SSLContext:
    """Return the context that the HTTP client uses by default, with the machine's authorities."""
    return httpx2.create_ssl_context()


def _load_certificate(context: ssl.SSLContext, certificate: str) -> None:
    """Load certificate and private key into a context."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / CERTIFICATE_FILE
        file.touch(mode=0o600)
        file.write_text(certificate, encoding="ascii")
        context.load_cert_chain(file)
