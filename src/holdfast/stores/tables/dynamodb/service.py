"""Requests to the service: one request and its response, with retries and error handling.

The SDK's call runs in a thread of a bounded pool, so that it does not block the event loop. Temporary
failures are retried (`retrying.py`). After a failure that leaves open whether the request was done, it is
sent again only if that is safe (`repeats.py`); otherwise the caller gets `OutcomeUnknown`.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

from holdfast.core.clock import Clock
from holdfast.core.errors import (
    AccessRefused,
    ConditionFailed,
    HoldfastError,
    OutcomeUnknown,
    RequestError,
    StoreClosed,
    TransactionCancelled,
)
from holdfast.stores.retrying import Backoff, Patience, Waiting
from holdfast.stores.tables.dynamodb.clients import Clients
from holdfast.stores.tables.dynamodb.failures import (
    NOT_ALLOWED,
    STREAM_ACTIONS,
    Failure,
    NotDynamoDB,
    failure_of,
    throttled_of,
)
from holdfast.stores.tables.dynamodb.repeats import Repeat
from holdfast.stores.tables.throttling import tell_throttled

Answer: TypeAlias = dict[str, Any]
Request: TypeAlias = dict[str, Any]

DECIDE: Final[dict[Repeat, str]] = {
    "token": "Repeat it with the same client token (the field `token`) within ten minutes: it is done once",
    "same": "Repeating it has no second effect",
    "once": (
        "Repeating it might do it twice: read first, and repeat only if what this write would have left is "
        "not there. "
        "As a transaction with a token it could be repeated safely"
    ),
}
OWN_EFFECT: Final = (
    "its repeat found the condition no longer met, which may be its own effect. Read the item and look for "
    "what only "
    "this write would have left (an owner, a version); as a transaction with a token it could be repeated "
    "safely"
)


class Service:
    """The connection to the service that the functions of act/ use, with the state kept between operations.

    `arn_prefix` is the prefix of the account's ARNs, once one was received. `lifetimes` holds the lifetime
    attribute of each table and when it was read. `keyed_by_lifetime` holds the tables and indexes that have
    this attribute in their key.
    """

    def __init__(
        self, clients: Clients, threads: int, backoff: Backoff, waiting: Waiting, clock: Clock
    ) -> None:
        self.clock = clock
        self.arn_prefix: str | None = None
        self.lifetimes: dict[str, tuple[str | None, float]] = {}
        self.keyed_by_lifetime: set[tuple[str, str | None]] = set()
        self._clients = clients
        self._backoff = backoff
        self._waiting = waiting
        self._threads = ThreadPoolExecutor(threads, "holdfast-dynamodb")
        self._is_closed = False

    def close(self) -> None:
        """Wait for the responses to sent requests, then refuse everything."""
        self._is_closed = True
        self._threads.shutdown()
        self._clients.close()

    def patience(self) -> Patience:
        return Patience(self._backoff, self._waiting)

    async def ask(
        self, action: str, request: Request, *, repeat: Repeat = "read", patience: Patience | None = None
    ) -> Answer:
        """Send a request and return the response, or raise a Holdfast error. Pass `patience` where several
        requests make up one operation.
        """
        patience = patience or self.patience()
        in_doubt = False
        while True:
            try:
                return await self._sent(action, request)
            except Exception as cause:
                failure = failure_of(cause, action, self._clients.endpoint)
                tell_throttled(*throttled_of(failure.error))
                in_doubt = in_doubt or (failure.kind == "doubtful" and repeat != "read")
                if _is_last(failure, repeat) or not await patience.pause():
                    if isinstance(failure.error, AccessRefused):
                        failure.error.add_note(_how_to_be_let_in(failure.error.code, action, request))
                    raise _told(failure.error, action, request, repeat, in_doubt=in_doubt) from cause

    async def _sent(self, action: str, request: Request) -> Answer:
        if self._is_closed:
            raise StoreClosed("The tables were closed: open them again, or let the shutdown finish")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._call, action, request)

    def _call(self, action: str, request: Request) -> Answer:
        from botocore import xform_name  # type: ignore[import, unused-ignore]

        client = self._clients.streams if action in STREAM_ACTIONS else self._clients.dynamodb
        answer: Answer = getattr(client, xform_name(action))(**request)
        kind = answer["ResponseMetadata"]["HTTPHeaders"].get("content-type", "")
        if "json" not in kind:
            raise NotDynamoDB(f"it is {kind or 'of no type'} and not JSON")
        return answer


def _is_last(failure: Failure, repeat: Repeat) -> bool:
    return failure.kind == "final" or (failure.kind == "doubtful" and repeat == "once")


def _how_to_be_let_in(code: str, action: str, request: Request) -> str:
    """Return a hint to add to the service's own message, which may name neither the action nor the table."""
    if code != NOT_ALLOWED:
        return (
            f"{action} was asked with credentials that are not accepted: check AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the profile in AWS_PROFILE, and this machine's "
            "clock."
        )
    on = f" on {', '.join(tables)}" if (tables := _tables_of(request)) else ""
    return (
        f"The credentials may not do dynamodb:{action}{on}: allow it to their role. `holdfast iam` writes a "
        "policy "
        "with what each component needs; tables are made by who may, with `holdfast tables --create` or a "
        "stack."
    )


def _tables_of(request: Request) -> list[str]:
    if "TableName" in request:
        return [request["TableName"]]
    actions = [action for each in request.get("TransactItems", ()) for action in each.values()]
    return sorted({*request.get("RequestItems", ()), *(action["TableName"] for action in actions)})


def _told(
    error: HoldfastError, action: str, request: Request, repeat: Repeat, *, in_doubt: bool
) -> HoldfastError:
    """Return the error for the caller. After a doubtful attempt, a later failure says nothing about the
    attempts before it, with two exceptions: an invalid request was refused each time, and with a client
    token a cancelled transaction was never done.
    """
    refused = isinstance(error, RequestError) and not isinstance(error, AccessRefused)
    if not in_doubt or refused:
        return error
    if repeat == "token" and isinstance(error, TransactionCancelled):
        return error
    if isinstance(error, ConditionFailed):
        text = f"Whether this {action} was done is not known: an answer was lost, and {OWN_EFFECT}"
        return OutcomeUnknown(text, safe_to_repeat=False, item=error.item)
    return OutcomeUnknown(
        f"Whether this {action} was done is not known. {error.message.rstrip('.')}. {DECIDE[repeat]}",
        safe_to_repeat=repeat != "once",
        token=request.get("ClientRequestToken"),
    )
