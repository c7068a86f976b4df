"""The clients of S3: the SDK in a thread with a few retries, and obstore's stores for the bytes of objects.

obstore puts and gets; the SDK does what obstore does not offer: buckets, legal holds, versions, heads with
the state of a hold, and pages of keys (obstore's prefixes end at a '/'). Both sign with the same credentials.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from obstore.store import S3Store

from holdfast.config.aws_clients import ServiceAddress, Timeouts, make_clients, require_sdk
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import OutcomeUnknown, RetryLater
from holdfast.core.rng import RNG
from holdfast.operations.objects import Encryption
from holdfast.security.aws_errors import to_holdfast_error
from holdfast.stores.objects.s3.errors import map_error

CONNECTIONS: Final = 16
MAX_ATTEMPTS: Final = 3
PAUSE_S: Final = 0.1
# How long obstore uses credentials before it asks the SDK's provider chain again, which renews them in time.
CREDENTIALS_LIFETIME: Final = timedelta(minutes=5)
ALGORITHMS: Final[dict[Encryption, str]] = {"s3": "AES256", "kms": "aws:kms"}


class Service:
    """The clients of one S3 address. It caches obstore's stores by bucket and encryption."""

    def __init__(self, address: ServiceAddress, timeouts: Timeouts) -> None:
        require_sdk("S3")
        self.where, self._address, self._timeouts = address.display_name, address, timeouts
        try:
            (self.client,) = make_clients(("s3",), address, timeouts, CONNECTIONS)
        except Exception as error:
            raise to_holdfast_error(error, "opening S3", address.display_name) from error
        self._stores: dict[tuple[str, Encryption | None, str | None], S3Store] = {}

    async def send(
        self, action: str, method: Callable[..., Any], *, writes: bool = False, **request: Any
    ) -> Any:
        """Call the SDK's `method` in a thread and return its response, with up to three attempts.

        `action` is S3's name for the request. `writes` says that a lost response becomes `OutcomeUnknown`.
        Every call made here may be retried.
        """
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return await asyncio.to_thread(method, **request)
            except Exception as error:
                failure = map_error(error, action, self.where, writes=writes)
                if not isinstance(failure, RetryLater) or attempt == MAX_ATTEMPTS:
                    raise failure from error
            await asyncio.sleep(PAUSE_S * 2**attempt * RNG.random())
        raise OutcomeUnknown(f"{action} was not attempted.", safe_to_repeat=True)

    def get_store(
        self, bucket: str, encryption: Encryption | None = None, kms_key: str | None = None
    ) -> S3Store:
        """Return obstore's store for a bucket, opened at its first use.

        The encryption of new objects is part of the store.
        """
        cache_key = (bucket, encryption, kms_key)
        if cache_key not in self._stores:
            self._stores[cache_key] = self._open_store(bucket, encryption, kms_key)
        return self._stores[cache_key]

    def _open_store(self, bucket: str, encryption: Encryption | None, kms_key: str | None) -> S3Store:
        """Return a new obstore store of the bucket, with this encryption for its puts."""
        config: Any = {"region": self.client.meta.region_name, "checksum_algorithm": "SHA256"}
        if self._address.endpoint is not None:
            config["endpoint"] = self._address.endpoint
        if encryption is not None:
            config["aws_server_side_encryption"] = ALGORITHMS[encryption]
        if encryption == "kms":
            config["aws_sse_bucket_key_enabled"] = True
            if kms_key is not None:
                config["aws_sse_kms_key_id"] = kms_key
        return S3Store(
            bucket,
            config=config,
            client_options={
                "allow_http": (self._address.endpoint or "").startswith("http://"),
                "connect_timeout": timedelta(seconds=self._timeouts.connect_s),
                "timeout": timedelta(seconds=self._timeouts.read_s),
            },
            retry_config={
                "max_retries": MAX_ATTEMPTS,
                "retry_timeout": timedelta(seconds=self._timeouts.read_s),
            },
            credential_provider=self._get_credentials,
        )

    def _get_credentials(self) -> Any:
        """Return the SDK client's current credentials in obstore's form, to be used for five minutes."""
        # The client's own credentials, wherever they came from; the SDK has no public name for them.
        found = self.client._request_signer._credentials.get_frozen_credentials()
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token,
            "expires_at": datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC) + CREDENTIALS_LIFETIME,
        }
