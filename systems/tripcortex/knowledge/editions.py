"""Which edition of a document serves. Every change of that is one transaction, and those of one document wait for each other.

Who asks a question meanwhile finds one edition: statements see what was committed when they began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import unquote
from uuid import UUID

from holdfast import Stores
from holdfast.errors import InvalidRequest
from tripcortex.knowledge import files, patterns
from tripcortex.knowledge.schema import Policy, PolicyStatus
from tripcortex.knowledge.uploading import document_of, known, moment

# Of all editions, the newest first, and the one that serves: the one that is to.
Choice = Callable[[Sequence[Policy], Policy | None], Policy]


async def finish(stores: Stores, policy: Policy) -> Policy:
    """Ready. It serves in place of an older edition; where a newer one serves already, it does not."""
    async with stores.transaction() as work:
        editions = await work.run(patterns.locked_editions(policy.document_id))
        serving = _serving(editions)
        now = moment(stores)
        if serving is not None and serving.edition > policy.edition:
            (ready,) = await work.run(patterns.advance(policy.id, policy.version, PolicyStatus.ready, now))
            return ready
        if serving is not None:
            await work.run(patterns.set_serving(serving.id, serving.version, False, now))
        (ready,) = await work.run(patterns.set_serving(policy.id, policy.version, True, now))
        for old in _outdated(editions, ready, serving):
            await work.run(patterns.delete_chunks(old.id))
            await work.run(patterns.retire(old.id, now))
    return ready


async def roll_back(stores: Stores, named: UUID) -> Policy:
    """The edition before the one that serves takes its place. `named` is the document, or any of its editions."""
    return await _exchanged(stores, await document_of(stores, named), _former)


async def serve(stores: Stores, policy_id: UUID) -> Policy:
    """A given edition serves, in place of whichever does."""
    policy = await known(stores, policy_id)
    return await _exchanged(stores, policy.document_id, lambda editions, _: _edition(editions, policy_id))


async def remove(stores: Stores, policy_id: UUID) -> None:
    """An edition with its chunks, its file and its pictures. Of what serves, no other edition takes the place."""
    policy = await known(stores, policy_id)
    await stores.run(patterns.delete_policy(policy_id, policy.version))
    # Rows first: a file that nobody knows is harmless, and a row whose file is gone is not.
    for entity_id in await _pictured(stores, policy_id):
        await stores.run(files.delete_crop(str(policy_id), entity_id))
    await stores.run(files.delete_source(str(policy_id)))


async def _pictured(stores: Stores, policy_id: UUID) -> list[str]:
    """The entities of which a picture is kept."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await stores.run(files.crops_of(str(policy_id), cursor))
        found += [unquote(each.key.rsplit("/", 1)[-1].removesuffix(".png")) for each in page.objects]
        if (cursor := page.cursor) is None:
            return found


async def _exchanged(stores: Stores, document_id: UUID, choose: Choice) -> Policy:
    async with stores.transaction() as work:
        editions = await work.run(patterns.locked_editions(document_id))
        serving = _serving(editions)
        chosen = choose(editions, serving)
        if serving is not None and serving.id == chosen.id:
            return serving
        now = moment(stores)
        if serving is not None:
            await work.run(patterns.set_serving(serving.id, serving.version, False, now))
        (served,) = await work.run(patterns.set_serving(chosen.id, chosen.version, True, now))
    return served


def _serving(editions: Sequence[Policy]) -> Policy | None:
    return next((each for each in editions if each.serves), None)


def _former(editions: Sequence[Policy], serving: Policy | None) -> Policy:
    """Editions come newest first."""
    if serving is None:
        raise InvalidRequest(
            "No edition of this document serves, and there is nothing to roll back: upload one."
        )
    for each in editions:
        if each.edition < serving.edition and _can_serve(each):
            return each
    raise InvalidRequest(
        f"Edition {serving.edition} serves, and no former edition can: none is ready and has its chunks. Upload that file as a "
        "new edition."
    )


def _edition(editions: Sequence[Policy], wanted: UUID) -> Policy:
    for each in editions:
        if each.id == wanted and _can_serve(each):
            return each
    raise InvalidRequest(
        f"Policy {wanted} cannot serve: it is not ready, or its chunks are gone. Upload its file as a new edition."
    )


def _can_serve(policy: Policy) -> bool:
    return policy.status is PolicyStatus.ready and policy.retired_at is None


def _outdated(editions: Sequence[Policy], serving: Policy, former: Policy | None) -> list[Policy]:
    """Older than the edition that a roll back would bring."""
    kept = {serving.id} | ({former.id} if former is not None else set())
    return [
        each
        for each in editions
        if each.edition < serving.edition
        and each.id not in kept
        and each.status is PolicyStatus.ready
        and each.retired_at is None
    ]
