"""A FastAPI endpoint that is safe to repeat: POST /payments with an Idempotency-Key.

Shows that a client may repeat a request after a lost response, or after a crash of the server: the payment
happens once, and each repeat gets the first response. The same key with another body is an error.

    pip install 'holdfast-state[api]'
    python idempotent_api.py    # prints its address
    curl -X POST ADDRESS/payments -H 'Idempotency-Key: k-1' -H 'Content-Type: application/json' \
         -d '{"account": "ada", "cents": 700}'
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header
from pydantic import BaseModel

from holdfast import (
    Attr,
    Entity,
    Key,
    Rate,
    Stores,
    System,
    Table,
    Update,
    attr,
    keep_names,
    open_stores,
    pattern,
    provision,
)
from holdfast.guarantees import Claim, Once, OnceRecord, fingerprint
from holdfast.web import make_app, serve

PAYMENT = Rate(per="payment")
accounts = Table("Accounts", partition="account")
requests = Table("Requests", partition="idempotency_key", ttl="expires_at", naming=keep_names)


class Account(Entity, table=accounts):
    account: Attr[str] = attr()
    paid: Attr[int] = attr(default=0)
    payments: Attr[int] = attr(default=0)

    of = Key(account)


class RequestRecord(OnceRecord, table=requests):
    idempotency_key: Attr[str] = attr()

    of = Key(idempotency_key)


class Payment(BaseModel):
    account: str
    cents: int


@pattern("P1", "Book a payment", rate=PAYMENT, example=(Payment(account="ada", cents=700),))
def book(payment: Payment) -> Update[Account]:
    account = Account.of(payment.account).update()
    return account.add(Account.paid, payment.cents).add(Account.payments, 1).or_create()


ONCE = Once(
    RequestRecord,
    prefix="ON",
    rate=PAYMENT,
    example=RequestRecord(idempotency_key="k-1", payload_sha256="0" * 64),
)
BANK = System(
    "bank", "Books payments, each once", tables=(accounts, requests), patterns=(book, *ONCE.patterns)
)


def build_router(stores: Stores) -> APIRouter:
    router = APIRouter()

    @router.post("/payments")
    async def pay(payment: Payment, idempotency_key: Annotated[str, Header()]) -> dict[str, Any]:
        async def effect(claim: Claim[RequestRecord]) -> None:
            # One transaction: the booking, and the record with its result.
            await claim.complete(book(payment), result={"booked": payment.cents})

        record = RequestRecord(
            idempotency_key=idempotency_key, payload_sha256=fingerprint(payment.model_dump())
        )
        done = await ONCE.do(stores, record, effect)
        return {"result": done.result, "replayed": done.replayed}

    @router.get("/accounts/{account}")
    async def show(account: str) -> dict[str, int]:
        found = await stores.run(Account.of(account).get())
        return {"payments": found.payments, "cents": found.paid} if found else {}

    return router


def main(port: int) -> None:
    stores = open_stores(BANK)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with stores:
            await provision(stores, BANK)
            yield

    app = make_app("Bank", "1", [build_router(stores)], lifespan=lifespan)
    serve(app, host="127.0.0.1", port=port, on_ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8080)
