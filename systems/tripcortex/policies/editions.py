"""Changes of the edition that serves: finish an ingestion, roll back or forward, serve another, remove one.

Every change is one transaction, and a row lock serialises those of one document. A concurrent query finds
exactly one edition: a statement sees what was committed when it started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import unquote
from uuid import UUID

from holdfast import Stores
from holdfast.core.errors import ConditionFailed, InvalidRequest
from tripcortex.model.policies import files, patterns
from tripcortex.model.policies import rules_patterns as rule_patterns
from tripcortex.model.policies.schema import Policy, PolicyStatus
from tripcortex.policies.rule_proposals import Proposals, build_proposal_writes
from tripcortex.policies.uploads import PolicyChanged, get_document_id, get_now, load_policy

# Called with all editions (newest first) and the serving one; returns the edition that should serve.
EditionChoice = Callable[[Sequence[Policy], Policy | None], Policy]


async def finish(stores: Stores, policy: Policy, proposals: Proposals) -> Policy:
    """Mark an ingested policy ready with its rules, and let it serve instead of an older edition.

    If a newer edition already serves, it becomes ready but does not serve. Editions older than the previous
    one are retired: their chunks are deleted.
    """
    async with stores.sql_transaction() as work:
        editions = await work.run(patterns.locked_editions(policy.document_id))
        serving = _find_serving(editions)
        now = get_now(stores)
        earlier = await work.run(rule_patterns.earlier_decisions(policy.document_id, policy.edition))
        for write in build_proposal_writes(policy, proposals, earlier, now):
            await work.run(write)
        if serving is not None and serving.edition > policy.edition:
            (ready,) = await work.run(patterns.advance(policy.id, policy.version, PolicyStatus.ready, now))
            return ready
        if serving is not None:
            await work.run(patterns.set_serving(serving.id, serving.version, False, now))
        (ready,) = await work.run(patterns.set_serving(policy.id, policy.version, True, now))
        for old in _list_outdated(editions, ready, serving):
            await work.run(patterns.delete_chunks(old.id))
            await work.run(patterns.retire(old.id, now))
    return ready


async def roll_back(stores: Stores, named: UUID) -> Policy:
    """Serve the previous edition again. `named` is the document's id, or that of any of its editions.

    Raise `InvalidRequest` if no edition serves or no earlier one still has its chunks.
    """
    return await _switch_serving(stores, await get_document_id(stores, named), _choose_previous)


async def roll_forward(stores: Stores, named: UUID) -> Policy:
    """Serve the next edition after a rollback. `named` is the document's id, or that of any of its editions.

    Raise `InvalidRequest` if no edition serves or no later one is ready.
    """
    return await _switch_serving(stores, await get_document_id(stores, named), _choose_next)


async def serve(stores: Stores, policy_id: UUID) -> Policy:
    """Serve this edition in place of the current one.

    Raise `InvalidRequest` if it is not ready or its chunks were deleted.
    """
    policy = await load_policy(stores, policy_id)
    return await _switch_serving(
        stores, policy.document_id, lambda editions, _: _choose_edition(editions, policy_id)
    )


async def remove(stores: Stores, policy_id: UUID) -> None:
    """Delete an edition with its chunks, file and images. If it serves, no other edition replaces it.

    Raise `PolicyChanged` if another request changes it at the same time.
    """
    policy = await load_policy(stores, policy_id)
    try:
        await stores.run(patterns.delete_policy(policy_id, policy.version))
    except ConditionFailed as error:
        raise PolicyChanged(policy_id) from error
    # Rows first: a file without a row is harmless, a row without its file is not.
    for entity_id in await _list_crop_ids(stores, policy_id):
        await stores.run(files.delete_crop(str(policy_id), entity_id))
    await stores.run(files.delete_source(str(policy_id)))


async def _list_crop_ids(stores: Stores, policy_id: UUID) -> list[str]:
    """Return the ids of the entities that have a stored image."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await stores.run(files.crops_of(str(policy_id), cursor))
        found += [unquote(each.key.rsplit("/", 1)[-1].removesuffix(".png")) for each in page.objects]
        if (cursor := page.cursor) is None:
            return found


async def _switch_serving(stores: Stores, document_id: UUID, choose: EditionChoice) -> Policy:
    """Let `choose` pick the edition that serves from now on, under the document's lock; return it."""
    async with stores.sql_transaction() as work:
        editions = await work.run(patterns.locked_editions(document_id))
        serving = _find_serving(editions)
        chosen = choose(editions, serving)
        if serving is not None and serving.id == chosen.id:
            return serving
        now = get_now(stores)
        if serving is not None:
            await work.run(patterns.set_serving(serving.id, serving.version, False, now))
        (served,) = await work.run(patterns.set_serving(chosen.id, chosen.version, True, now))
    return served


def _find_serving(editions: Sequence[Policy]) -> Policy | None:
    """Return the edition that serves, or None."""
    return next((each for each in editions if each.serves), None)


def _choose_previous(editions: Sequence[Policy], serving: Policy | None) -> Policy:
    """Return the newest earlier edition that can serve. `editions` are newest first."""
    if serving is None:
        raise InvalidRequest(
            "No edition of this document serves, so there is nothing to roll back. Upload one."
        )
    for each in editions:
        if each.edition < serving.edition and _can_serve(each):
            return each
    raise InvalidRequest(
        f"No earlier edition can replace edition {serving.edition}: none is ready and has its chunks. "
        "Upload the earlier file as a new edition."
    )


def _choose_next(editions: Sequence[Policy], serving: Policy | None) -> Policy:
    """Return the oldest later edition that can serve. `editions` are newest first."""
    if serving is None:
        raise InvalidRequest(
            "No edition of this document serves, so there is nothing to roll forward. Upload one."
        )
    for each in reversed(editions):
        if each.edition > serving.edition and _can_serve(each):
            return each
    raise InvalidRequest(
        f"No later edition can replace edition {serving.edition}: none is ready. Upload the next edition."
    )


def _choose_edition(editions: Sequence[Policy], wanted: UUID) -> Policy:
    """Return the edition with this id. Raise `InvalidRequest` if it cannot serve."""
    for each in editions:
        if each.id == wanted and _can_serve(each):
            return each
    raise InvalidRequest(
        f"Policy {wanted} is not ready, or its chunks were deleted. Upload its file as a new edition."
    )


def _can_serve(policy: Policy) -> bool:
    """Return whether the edition is ready and still has its chunks."""
    return policy.status is PolicyStatus.ready and policy.retired_at is None


def _list_outdated(editions: Sequence[Policy], serving: Policy, former: Policy | None) -> list[Policy]:
    """Return the ready editions older than the one that a rollback would restore."""
    kept = {serving.id} | ({former.id} if former is not None else set())
    return [
        each
        for each in editions
        if each.edition < serving.edition
        and each.id not in kept
        and each.status is PolicyStatus.ready
        and each.retired_at is None
    ]
