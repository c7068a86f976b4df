"""Sends requests to SQS and handles every way in which one may fail.

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
from holdfast.stores.queues.sqs.failures import failure_of
from holdfast.stores.retrying import Backoff, Patience, Waiting

Answer: TypeAlias = dict[str, Any]

RECEIVE: Final = "ReceiveMessage"


class Service:
    """The client that the functions of act/ use. `urls` caches the URLs of the queues used so far."""

    def __init__(self, client: Any, where: str, threads: int, backoff: Backoff, waiting: Waiting) -> None:
        self._client, self._where = client, where
        self._backoff, self._waiting = backoff, waiting
        self._threads = ThreadPoolExecutor(threads, "holdfast-sqs")
        self._receivers = ThreadPoolExecutor(threads, "holdfast-sqs-receive")
        self._urls: dict[str, str] = {}
        self._is_closed = False

    def close(self) -> None:
        """Wait for the responses to requests in flight, then refuse new ones."""
        self._is_closed = True
        self._threads.shutdown()
        self._receivers.shutdown()
        self._client.close()

    async def url(self, queue: str) -> str:
        if queue not in self._urls:
            self._urls[queue] = (await self.ask("GetQueueUrl", QueueName=queue))["QueueUrl"]
        return self._urls[queue]

    def forget(self, queue: str) -> None:
        self._urls.pop(queue, None)

    async def ask(self, action: str, *, is_repeatable: bool = True, **request: Any) -> Answer:
        """Send one request and return its response, or raise a `HoldfastError`."""
        patience = Patience(self._backoff, self._waiting)
        in_doubt = False
        while True:
            try:
                return await self._sent(action, request)
            except Exception as cause:
                error, kind = failure_of(cause, action, self._where)
                in_doubt = in_doubt or kind == "doubtful"
                may_come_again = kind == "undone" or (kind == "doubtful" and is_repeatable)
                if may_come_again and await patience.pause():
                    continue
                if in_doubt and not is_repeatable:
                    raise OutcomeUnknown(
                        f"Whether this {action} was done is not known. {error.message} Repeating it might "
                        "send the "
                        "message twice: a receiver of a standard queue must bear that.",
                        safe_to_repeat=False,
                    ) from cause
                raise error from cause

    async def _sent(self, action: str, request: dict[str, Any]) -> Answer:
        if self._is_closed:
            raise StoreClosed("The queues were closed: open them again, or let the shutdown finish.")
        pool = self._receivers if action == RECEIVE else self._threads
        return await asyncio.get_running_loop().run_in_executor(pool, self._call, action, request)

    def _call(self, action: str, request: dict[str, Any]) -> Answer:
        from botocore import xform_name  # type: ignore[import, unused-ignore]

        answer: Answer = getattr(self._client, xform_name(action))(**request)
        return answer
