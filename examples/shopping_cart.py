"""A shopping cart: conditional writes, a transaction over two tables, and optimistic locking.

Shows that the last piece is sold once, and that two devices of a customer do not overwrite each other's cart.

    pip install holdfast-state
    python shopping_cart.py     # creates data/; the second run continues with what is left
"""

from __future__ import annotations

import asyncio

from holdfast import (
    Attr,
    Component,
    Entity,
    Get,
    Key,
    Put,
    Rate,
    Stores,
    System,
    Table,
    Update,
    attr,
    open_stores,
    pattern,
    provision,
)
from holdfast.core.errors import ConditionFailed, TransactionCancelled

ADDITION = Rate(per="addition")
stock_table = Table("Stock", partition="sku")
carts_table = Table("Carts", partition="customer")


class Stock(Entity, table=stock_table):
    sku: Attr[str] = attr()
    pieces: Attr[int] = attr()

    of = Key(sku)


class Cart(Entity, table=carts_table):
    customer: Attr[str] = attr()
    lines: Attr[dict[str, int]] = attr(default_factory=dict)
    version: Attr[int] = attr(default=0)

    of = Key(customer)


@pattern("C1", "The cart of a customer", rate=ADDITION, example=("ada",))
def cart_of(customer: str) -> Get[Cart]:
    return Cart.of(customer).get().consistent()


@pattern("C2", "Put new goods on the shelf", rate=Rate(per="delivery"), example=("lamp", 3))
def stock_up(sku: str, pieces: int) -> Put[Stock]:
    return Stock.create(Stock(sku=sku, pieces=pieces))


@pattern("C3", "Take a piece off the shelf, if there is one", rate=ADDITION, example=("lamp",))
def take(sku: str) -> Update[Stock]:
    return Stock.of(sku).update().add(Stock.pieces, -1).when(Stock.pieces >= 1)


@pattern("C4", "Write a cart over the version that was read", rate=ADDITION, example=(Cart(customer="ada"),))
def save(cart: Cart) -> Put[Cart]:
    if cart.version == 0:  # there was no cart
        return Cart.create(cart.model_copy(update={"version": 1}))
    return Cart.put(cart).at_version(Cart.version, cart.version)


SHOP = System(
    "shop",
    "Sells lamps",
    tables=(stock_table, carts_table),
    components=(Component("web", uses=(cart_of, stock_up, take, save)),),
)


async def add(stores: Stores, customer: str, sku: str) -> str:
    """Move one piece from the shelf into the cart, and say what happened."""
    while True:
        cart = await stores.run(cart_of(customer)) or Cart(customer=customer)
        lines = cart.lines | {sku: cart.lines.get(sku, 0) + 1}
        try:
            await stores.transact(take(sku), save(cart.model_copy(update={"lines": lines})))
        except TransactionCancelled as cancelled:
            shelf, _ = cancelled.reasons
            if shelf.code == "ConditionalCheckFailed":
                return f"{customer}: sold out"
            # Another device changed the cart: read it again and decide again.
        else:
            return f"{customer}: {lines[sku]} in the cart"


async def main() -> None:
    async with open_stores(SHOP) as stores:
        await provision(stores, SHOP)
        web = stores.for_component("web")
        try:
            await web.run(stock_up("lamp", 3))
        except ConditionFailed:
            print("the shelf is as the last run left it")
        # Two devices of Ada at once; both additions count.
        for line in sorted(await asyncio.gather(add(web, "ada", "lamp"), add(web, "ada", "lamp"))):
            print(line)
        print(await add(web, "bob", "lamp"))
        print(await add(web, "eve", "lamp"))


if __name__ == "__main__":
    asyncio.run(main())
