"""Asks SQS: one request and its answer, with everything that may go wrong between the two.

The SDK's calls run in threads, so that the event loop goes on; receives that wait have threads of their own,
so that they keep nobody from sending. A failure that passes is waited out with jitter. After a failure that
leaves open whether the request was done, it comes again only if that can do no harm; otherwise the caller
hears `OutcomeUnknown`.
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
    """What the functions of act/ ask. `urls` are those of the queues seen so far."""

    def __init__(self, client: Any, where: str, threads: int, backoff: Backoff, waiting: Waiting) -> None:
        self._client, self._where = client, where
        self._backoff, self._waiting = backoff, waiting
        self._threads = ThreadPoolExecutor(threads, "holdfast-sqs")
        self._receivers = ThreadPoolExecutor(threads, "holdfast-sqs-receive")
        self._urls: dict[str, str] = {}
        self._is_closed = False

    def close(self) -> None:
        """Let what was sent be answered, then refuse everything."""
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
        """The answer, or one of our errors."""
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
