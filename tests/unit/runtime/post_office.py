"""Example for the tests of workers and hosts: a post office with ordered letters and unordered parcels."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel

from holdfast import (
    Attr,
    Component,
    Consumer,
    Entity,
    Get,
    Key,
    Put,
    Queue,
    Rate,
    ReceivedMessage,
    Schedule,
    Stores,
    System,
    Table,
    attr,
    pattern,
)
from holdfast.core.errors import NotFound
from holdfast.model.demo import Demo
from holdfast.model.queues import Send
from holdfast.model.system import Admin, Explanation, Http, collect_patterns

LETTER = Rate(per="letter")


class Letter(BaseModel):
    id: str
    address: str = "A"


letters = Queue(
    "letters",
    Letter,
    fifo=True,
    group=lambda m: m.address,
    deduplication=lambda m: m.id,
    max_receives=3,
    pattern_ids=("P2", "P3", "P4"),
    rate=LETTER,
)
parcels = Queue(
    "parcels", Letter, visibility_s=30, max_receives=2, pattern_ids=("P6", "P7", "P8"), rate=LETTER
)
deliveries = Table("Deliveries", partition="letterId")

take, done, hold = letters.consumer.receive, letters.consumer.delete, letters.consumer.change_visibility


class Delivery(Entity, table=deliveries):
    letter_id: Attr[str] = attr()
    times: Attr[int] = attr(default=1)
    of = Key(letter_id)


@pattern("P1", "Post a letter", rate=LETTER, example=(Letter(id="l-1"),))
def post(letter: Letter) -> Send[Letter]:
    return letters.send(letter)


@pattern("P5", "Hand in a parcel", rate=LETTER, example=(Letter(id="l-1"),))
def hand_in(letter: Letter) -> Send[Letter]:
    return parcels.send(letter)


@pattern("P9", "Write a delivery down", rate=LETTER, example=("l-1",))
def deliver(letter_id: str) -> Put[Delivery]:
    return Delivery.put(Delivery(letter_id=letter_id))


@pattern("P10", "A delivery", rate=LETTER, example=("l-1",))
def delivery(letter_id: str) -> Get[Delivery]:
    return Delivery.of(letter_id).get()


def routes(stores: Stores) -> APIRouter:
    """Build the route that posts a letter."""
    router = APIRouter()

    @router.post("/letters/{letter_id}")
    async def letter(letter_id: str) -> dict[str, str | None]:
        await stores.run(post(Letter(id=letter_id)))
        return {"component": stores.component}

    return router


def desk_routes(stores: Stores) -> APIRouter:
    """Build the route that reads a delivery."""
    router = APIRouter()

    @router.get("/deliveries/{letter_id}")
    async def get_delivery(letter_id: str) -> dict[str, Any]:
        return {
            "component": stores.component,
            "delivered": await stores.run(delivery(letter_id)) is not None,
        }

    return router


@asynccontextmanager
async def delivering(stores: Stores) -> AsyncIterator[Callable[[ReceivedMessage[Letter]], Awaitable[None]]]:
    """Yield a handler that writes each letter's delivery down."""

    async def handle(received: ReceivedMessage[Letter]) -> None:
        await stores.run(deliver(received.message.id))
        stores.count("letters_delivered")

    yield handle


async def sweep(stores: Stores) -> None:
    """Count a sweep: the component's schedule."""
    stores.count("sweeps")


async def why(stores: Stores, id: str) -> Explanation:
    """Explain a delivery; raise `NotFound` if there is none."""
    if await stores.run(delivery(id)) is None:
        raise NotFound(f"No letter {id} was delivered.")
    return Explanation(
        [f"{id} was delivered", f"asked as {stores.component}"], {"letter": id, "asked_as": stores.component}
    )


def railway(clock: Any) -> FastAPI:
    """Build a sandbox that returns the time of its clock."""
    app = FastAPI()

    @app.get("/trains")
    def trains() -> dict[str, float]:
        return {"time": clock.now()}

    return app


CARRIER = Component(
    "carrier",
    uses=(deliver,),
    consumers=(Consumer(letters, delivering, retry_delay_s=0),),
    schedules=(Schedule("sweep", 60, sweep),),
)

SYSTEM = System(
    "postoffice",
    "Letters and where they went",
    tables=[deliveries],
    queues=[letters, parcels],
    patterns=collect_patterns(sys.modules[__name__]),
    components=[
        Component("api", uses=(post,)),
        Component("desk", uses=(delivery,), routes=desk_routes),
        CARRIER,
        Component("idle", uses=(delivery,)),
    ],
    title="Post office",
    http=Http(routes=routes),
    admin=Admin(why=why),
    demo=Demo(sandboxes={"railway": railway}),
)


@asynccontextmanager
async def lacking_a_key(_: Stores) -> AsyncIterator[Callable[[ReceivedMessage[Letter]], Awaitable[None]]]:
    """Fail to open a handler: the environment variable that it needs is not set."""

    async def handle(received: ReceivedMessage[Letter]) -> None:
        raise AssertionError(f"{received.id} was handled without {key}")

    key = os.environ["POST_OFFICE_KEY"]
    yield handle


# The same system, with a worker that needs an environment variable that is not set.
UNSET = replace(
    SYSTEM,
    components=[
        replace(CARRIER, consumers=(replace(CARRIER.consumers[0], open_handler=lacking_a_key),))
        if each is CARRIER
        else each
        for each in SYSTEM.components
    ],
)
