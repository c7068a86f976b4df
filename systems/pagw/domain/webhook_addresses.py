"""Check of webhook addresses that clients register, for one request or for a subscription.

They are stored in rows. So they must fit the columns, and have no query string, where a patient's name or
number might be put. The webhook's body names the request.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import TargetRefused
from holdfast.web.webhook_targets import check_target

# The length of the columns subscriptions.endpoint and deliveries.target.
MAX_ADDRESS_CHARS: Final = 2000


def check_address(url: str, *, allow_private: bool) -> str:
    """Return the normalised address. Raise `TargetRefused` for one that is invalid, forbidden, too long or
    has a query string. `allow_private` permits private networks.
    """
    if "?" in url:
        raise TargetRefused("it has a query string (?…). Remove it: the webhook's body names the request")
    # Normalisation may lengthen the address.
    called = check_target(url, allow_private=allow_private).url
    if max(len(url), len(called)) > MAX_ADDRESS_CHARS:
        raise TargetRefused(f"it is longer than {MAX_ADDRESS_CHARS} characters")
    return called
