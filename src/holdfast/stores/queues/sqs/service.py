"""The client of SQS: sends requests, retries transient failures and reports doubtful outcomes.

The SDK's calls run in threads, so that the event loop is not blocked; receives that wait have threads of
their own, so that they do not delay sends. Transient failures are retried with jitter. After a failure that
leaves open whether the request was done, it is retried only if that is harmless; otherwise the caller gets
`OutcomeUnknown`.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

from holdfast.core.errors import OutcomeUnknown, StoreClosed
from holdfast.stores.queues.sqs.errors import map_error
from holdfast.stores.retries import Backoff, Retries, RetryTiming

Response: TypeAlias = dict[str, Any]

RECEIVE_ACTION: Final = "ReceiveMessage"


class Service:
    """The client that the handlers use. It caches the URLs of the queues used so far."""

    def __init__(self, client: Any, where: str, threads: int, backoff: Backoff, timing: RetryTiming) -> None:
        self._client, self._where = client, where
        self._backoff, self._timing = backoff, timing
        self._threads = ThreadPoolExecutor(threads, "holdfast-sqs")
        self._receive_threads = ThreadPoolExecutor(threads, "holdfast-sqs-receive")
        self._urls: dict[str, str] = {}
        self._is_closed = False

    def close(self) -> None:
        """Wait for the responses to requests in flight, then refuse new ones."""
        self._is_closed = True
        self._threads.shutdown()
        self._receive_threads.shutdown()
        self._client.close()

    async def get_url(self, queue: str) -> str:
        """Return the queue's URL, from the cache or from SQS. Raise `NotFound` without the queue."""
        if queue not in self._urls:
            self._urls[queue] = (await self.send("GetQueueUrl", QueueName=queue))["QueueUrl"]
        return self._urls[queue]

    def forget_url(self, queue: str) -> None:
        """Drop the cached URL of a deleted queue."""
        self._urls.pop(queue, None)

    async def send(self, action: str, *, is_repeatable: bool = True, **parameters: Any) -> Response:
        """Send one request, with retries, and return its response, or raise a `HoldfastError`.

        `action` is SQS's name for the request. If it is not `is_repeatable`, a doubtful failure raises
        `OutcomeUnknown` at once.
        """
        retries = Retries(self._backoff, self._timing)
        in_doubt = False
        while True:
            try:
                return await self._send_once(action, parameters)
            except Exception as cause:
                error, kind = map_error(cause, action, self._where)
                in_doubt = in_doubt or kind == "doubtful"
                may_retry = kind == "undone" or (kind == "doubtful" and is_repeatable)
                if may_retry and await retries.pause():
                    continue
                if in_doubt and not is_repeatable:
                    raise OutcomeUnknown(
                        f"The outcome of this {action} is unknown. {error.message} Repeating it might send "
                        "the message twice, which a receiver of a standard queue must tolerate.",
                        safe_to_repeat=False,
                    ).with_code(error.code) from cause
                raise error from cause

    async def _send_once(self, action: str, parameters: dict[str, Any]) -> Response:
        """Make one attempt in a thread; receives have threads of their own.

        Raise `StoreClosed` after `close`.
        """
        if self._is_closed:
            raise StoreClosed("The queues store was closed: open it again, or let the shutdown finish.")
        pool = self._receive_threads if action == RECEIVE_ACTION else self._threads
        return await asyncio.get_running_loop().run_in_executor(pool, self._call_sdk, action, parameters)

    def _call_sdk(self, action: str, parameters: dict[str, Any]) -> Response:
        """Call the SDK's method for this action in this thread."""
        from botocore import xform_name  # type: ignore[import, unused-ignore]

        response: Response = getattr(self._client, xform_name(action))(**parameters)
        return response
