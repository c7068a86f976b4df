"""The client of DynamoDB: sends requests, retries temporary failures and reports doubtful outcomes.

The SDK's call runs in a thread of a bounded pool, so that it does not block the event loop. Temporary
failures are retried (`holdfast.stores.retries`). If a failure leaves open whether the request was done, it
is sent again only if that is safe (`repeats.py`); otherwise the caller gets `OutcomeUnknown`.
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
    StoreFailed,
    TransactionCancelled,
)
from holdfast.stores.retries import Backoff, Retries, RetryTiming
from holdfast.stores.tables.dynamodb.clients import Clients
from holdfast.stores.tables.dynamodb.errors import (
    ACCESS_DENIED,
    STREAM_ACTIONS,
    Failure,
    NotDynamoDB,
    count_throttles,
    map_error,
)
from holdfast.stores.tables.dynamodb.repeats import RepeatPolicy
from holdfast.stores.tables.throttle_counts import report_throttles

Response: TypeAlias = dict[str, Any]
Request: TypeAlias = dict[str, Any]

REPEAT_ADVICE: Final[dict[RepeatPolicy, str]] = {
    "token": "Repeat it with the same client token (the field `token`) within ten minutes: it is done once.",
    "same": "Repeating it has no second effect.",
    "once": (
        "Repeating it might do it twice: read first, and repeat it only if its effect is missing."
        " A transaction with a token could be repeated safely."
    ),
}
OWN_EFFECT_ADVICE: Final = (
    "the retry failed the condition, which may be its own effect. Read the item and look for a value that"
    " only this write sets (an owner, a version). A transaction with a token could be repeated safely."
)


class Service:
    """The connection to the service that the handlers use, with the state kept between operations.

    `arn_prefix` is the prefix of the account's ARNs, once one was received. `lifetimes` holds the lifetime
    attribute of each table and when it was read. `keyed_by_lifetime` holds the tables and indexes that have
    this attribute in their key.
    """

    def __init__(
        self, clients: Clients, threads: int, backoff: Backoff, timing: RetryTiming, clock: Clock
    ) -> None:
        self.clock = clock
        self.arn_prefix: str | None = None
        self.lifetimes: dict[str, tuple[str | None, float]] = {}
        self.keyed_by_lifetime: set[tuple[str, str | None]] = set()
        self._clients = clients
        self._backoff = backoff
        self._timing = timing
        self._threads = ThreadPoolExecutor(threads, "holdfast-dynamodb")
        self._is_closed = False

    def close(self) -> None:
        """Wait for the responses to sent requests, then refuse every request."""
        self._is_closed = True
        self._threads.shutdown()
        self._clients.close()

    def start_retries(self) -> Retries:
        """Return the retries of one operation."""
        return Retries(self._backoff, self._timing)

    async def send(
        self, action: str, request: Request, *, repeat: RepeatPolicy = "read", retries: Retries | None = None
    ) -> Response:
        """Send a request, with retries, and return the response, or raise a Holdfast error.

        `action` is the service's name of the request; `repeat` says whether it may be sent again after a
        doubtful failure. Pass `retries` if several requests make up one operation.
        """
        retries = retries or self.start_retries()
        in_doubt = False
        while True:
            try:
                return await self._send_once(action, request)
            except Exception as cause:
                failure = map_error(cause, action, self._clients.endpoint)
                report_throttles(*count_throttles(failure.error))
                in_doubt = in_doubt or (failure.kind == "doubtful" and repeat != "read")
                if _is_final(failure, repeat) or not await retries.pause():
                    if isinstance(failure.error, AccessRefused):
                        failure.error.add_note(_build_access_hint(failure.error.code, action, request))
                    raise _build_error(failure.error, action, request, repeat, in_doubt=in_doubt) from cause

    async def _send_once(self, action: str, request: Request) -> Response:
        """Make one attempt in a thread. Raise `StoreClosed` after `close`, or the SDK's own error."""
        if self._is_closed:
            raise StoreClosed("The tables store is closed: open it again, or let the shutdown finish.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._call_sdk, action, request)

    def _call_sdk(self, action: str, request: Request) -> Response:
        """Call the SDK in this thread. Raise `NotDynamoDB` for a response that is not JSON."""
        from botocore import xform_name  # type: ignore[import, unused-ignore]

        client = self._clients.streams if action in STREAM_ACTIONS else self._clients.dynamodb
        response: Response = getattr(client, xform_name(action))(**request)
        kind = response["ResponseMetadata"]["HTTPHeaders"].get("content-type", "")
        if "json" not in kind:
            raise NotDynamoDB(f"expected JSON, got {kind or 'no content type'}")
        return response


def _is_final(failure: Failure, repeat: RepeatPolicy) -> bool:
    """Return whether the request must not be sent again."""
    return failure.kind == "final" or (failure.kind == "doubtful" and repeat == "once")


def _build_access_hint(code: str, action: str, request: Request) -> str:
    """Return a hint to add to the service's own message, which may name neither the action nor the table."""
    if code != ACCESS_DENIED:
        return (
            f"The service does not accept the credentials of {action}: check AWS_ACCESS_KEY_ID,"
            " AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the profile in AWS_PROFILE,"
            " and this machine's clock."
        )
    on_tables = f" on {', '.join(tables)}" if (tables := _find_tables(request)) else ""
    return (
        f"The credentials do not allow dynamodb:{action}{on_tables}: grant it to their role. `holdfast iam`"
        " writes a policy with the permissions of each component. To create tables, run `holdfast tables"
        " --create` or deploy a stack with a role that may."
    )


def _find_tables(request: Request) -> list[str]:
    """Return the names of the tables that a request uses."""
    if "TableName" in request:
        return [request["TableName"]]
    actions = [action for each in request.get("TransactItems", ()) for action in each.values()]
    return sorted({*request.get("RequestItems", ()), *(action["TableName"] for action in actions)})


def _build_error(
    error: HoldfastError, action: str, request: Request, repeat: RepeatPolicy, *, in_doubt: bool
) -> HoldfastError:
    """Return the error for the caller.

    After a doubtful attempt, a later failure says nothing about the attempts before it, with two exceptions:
    an invalid request was refused each time, and with a client token a cancelled transaction was never done.
    """
    is_refused = isinstance(error, RequestError) and not isinstance(error, AccessRefused)
    if not in_doubt or is_refused:
        return error
    if repeat == "token" and isinstance(error, TransactionCancelled):
        return error
    if isinstance(error, ConditionFailed):
        text = f"The outcome of this {action} is unknown: a response was lost, and {OWN_EFFECT_ADVICE}"
        return OutcomeUnknown(text, safe_to_repeat=False, item=error.item)
    return OutcomeUnknown(
        f"The outcome of this {action} is unknown. {error.message.rstrip('.')}. {REPEAT_ADVICE[repeat]}",
        safe_to_repeat=repeat != "once",
        token=request.get("ClientRequestToken"),
    ).with_code(error.code if isinstance(error, StoreFailed) else "")
