"""A job queue: a worker with retries and a dead-letter queue, which may be killed at any point.

Shows that no job is lost: a message is deleted after its handler returned, so the job of a killed worker is
received again. The handler may run twice; it writes the same result under the same key.

    pip install holdfast-state
    python job_queue.py submit   # sends six jobs
    python job_queue.py work     # works until nothing is left; kill it and start it again
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import BaseModel

from holdfast import (
    Attr,
    Component,
    Consumer,
    Entity,
    Handler,
    Key,
    Put,
    Queue,
    Rate,
    ReceivedMessage,
    Stores,
    System,
    Table,
    WorkerGroup,
    attr,
    open_stores,
    pattern,
    provision,
)
from holdfast.runtime import get_queue_reports


class Job(BaseModel):
    number: int


# A job whose worker was killed is received again after two seconds; after three attempts it is a dead letter.
jobs = Queue("jobs", Job, visibility_s=2, max_receives=3)
results = Table("Results", partition="batch", sort="number", sort_type="N")


class Result(Entity, table=results):
    batch: Attr[str] = attr()
    number: Attr[int] = attr()
    square: Attr[int] = attr()

    of = Key(batch, number)


@pattern("J1", "Write the result of a job", rate=Rate(per="job"), example=(1, 1))
def write_result(number: int, square: int) -> Put[Result]:
    return Result.put(Result(batch="squares", number=number, square=square))


@asynccontextmanager
async def open_handler(stores: Stores) -> AsyncIterator[Handler]:
    async def handle(received: ReceivedMessage[Job]) -> None:
        number = received.message.number
        print(f"job {number}, attempt {received.receive_count}", flush=True)
        if number == 4:
            raise ValueError("this job always fails")
        await asyncio.sleep(0.3)  # the work
        await stores.run(write_result(number, number**2))

    yield handle


CONSUMER = Consumer(jobs, open_handler, concurrency=2, retry_delay_s=0.1)
WORKER = Component("worker", uses=(write_result,), consumers=(CONSUMER,))
SQUARES = System("squares", "Computes squares", tables=(results,), components=(WORKER,))


async def main(command: str) -> None:
    async with open_stores(SQUARES) as stores:
        await provision(stores, SQUARES)
        if command == "submit":
            await stores.run(jobs.send_batch(Job(number=number) for number in range(1, 7)))  # at most ten
            print("6 jobs submitted")
            return
        async with WorkerGroup(stores, [WORKER], wait_s=0.5):
            while (report := (await get_queue_reports(stores, [jobs]))[0]).waiting.backlog:
                await asyncio.sleep(0.1)
        squares = {each.number: each.square for each in await stores.run(Result.of("squares").query())}
        print(f"results {squares}, {report.dead} dead letter")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "work"))
