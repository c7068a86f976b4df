"""Addresses at which clients want to be called: for one request (X-Callback-Url), or for a subscription.

They stand in rows, so that they are no longer than the columns take, and have no query: that is where a name or a number
of a patient would be put. What is sent says which request it is about.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import TargetRefused
from holdfast.web.targets import checked_target

# That of the columns subscriptions.endpoint and deliveries.target.
ADDRESS_CHARS_MAX: Final = 2000


def checked_address(url: str, *, allow_private: bool) -> str:
    """The address as it is called. Raises `TargetRefused`."""
    if "?" in url:
        raise TargetRefused("it has a query (?…), which is not kept: what is sent names the request")
    # As it is called, it may be longer than it was written.
    called = checked_target(url, allow_private=allow_private).url
    if max(len(url), len(called)) > ADDRESS_CHARS_MAX:
        raise TargetRefused(f"it is longer than {ADDRESS_CHARS_MAX} characters")
    return called
