"""What is stored of the idempotency keys that clients choose, and how the keys of version 0.2 are found."""

from __future__ import annotations

import json

import pytest

from holdfast_demo.pagw.sample.bundles import build_request_bundle
from pagw.model import patterns
from pagw.model.entities import QUEUES, IdempotencyRecord
from pagw.model.lookup import RequestLookup, build_plain_key
from pagw.model.patterns import build_outbox
from pagw.ops.retention import apply_retention
from pagw.settings import PagwSettings
from pagw.workers.intake import Intake, Submission
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario
from tests.systems.pagw.idempotency_keys import build_idempotency_key

# A client should not do this, but may.
NAME = "Maria Mustermann 1961-04-30"
TABLES = ("request_tracker", "audit_log", "outbox", "inbox", "request_lookup")


async def accept(pipeline: Pipeline, bundle: dict[str, object], key: str) -> tuple[str, bool]:
    """Accept a bundle by a new intake, as another process would. Return the id, and if it was replayed."""
    intake = Intake(pipeline.stores.for_component("api"), PagwSettings(), RequestLookup.open())
    found = await intake.accept(Submission("acme", key, json.dumps(bundle).encode()))
    return found.pagw_id, found.replayed


async def store_as_earlier_version(pipeline: Pipeline, key: str) -> None:
    """Move the record of a key to where version 0.2 stored it, and its row's key with it."""
    hashed, plain = build_idempotency_key("acme", key), build_plain_key("acme", key)
    record = await pipeline.stores.run(patterns.submission(hashed))
    assert record is not None
    await pipeline.stores.run(IdempotencyRecord.put(record.model_copy(update={"idempotency_key": plain})))
    await pipeline.stores.run(IdempotencyRecord.of(hashed).delete())
    pipeline.execute(
        "UPDATE pagw.request_tracker SET metadata = metadata || "
        f"""jsonb_build_object('idempotencyKey', '{plain}')"""
    )


@pytest.mark.proves("PG-14", "PG-X21")
async def test_patients_name_in_a_key_is_stored_nowhere_and_the_key_still_works() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        bundle = build_request_bundle(reference="KEYS-1")
        pagw_id, _ = await accept(pipeline, bundle, NAME)
        await pipeline.settle()
        assert await accept(pipeline, bundle, NAME) == (pagw_id, True)
        assert await pipeline.stores.run(patterns.submission(build_plain_key("acme", NAME))) is None
        record = await pipeline.stores.run(patterns.submission(build_idempotency_key("acme", NAME)))
        assert record is not None and record.pagw_id == pagw_id
        stored = [pipeline.rows(f"SELECT t::text FROM pagw.{table} AS t") for table in TABLES]
        assert all(stored)
        assert not [each for rows in stored for (each,) in rows if "Mustermann" in each]

    await run_scenario(scenario)


async def test_key_that_version_0_2_stored_as_text_is_found_and_then_removed() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        bundle = build_request_bundle(reference="KEYS-2")
        pagw_id, _ = await accept(pipeline, bundle, NAME)
        await store_as_earlier_version(pipeline, NAME)
        assert await accept(pipeline, bundle, NAME) == (pagw_id, True)
        # Another key gets a hash.
        other, _ = await accept(pipeline, build_request_bundle(reference="KEYS-3"), "other")
        kept = (await pipeline.request(other)).metadata["idempotencyKey"]
        assert kept == build_idempotency_key("acme", "other")

        pipeline.clock.advance(hours=47)
        await apply_retention(pipeline.sweeper, PagwSettings())
        assert "idempotencyKey" in (await pipeline.request(pagw_id)).metadata
        pipeline.clock.advance(hours=2)
        await apply_retention(pipeline.sweeper, PagwSettings())
        assert "idempotencyKey" not in (await pipeline.request(pagw_id)).metadata
        assert (await pipeline.request(other)).metadata["idempotencyKey"] == kept
        assert not (await accept(pipeline, bundle, NAME))[1]

    await run_scenario(scenario)


@pytest.mark.proves("PG-28", "PG-43")
async def test_accepted_request_has_the_documented_states_behind_it_and_a_message_to_the_next_stage() -> None:
    """The document's parser sets PARSED and names the validator's queue; ours passes both in one call."""

    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        request = await pipeline.request(pagw_id)
        assert (request.status, request.stage) == ("VALIDATED", "request-enricher")
        audited = pipeline.rows(
            "SELECT event_subtype, details -> 'through' FROM pagw.audit_log WHERE pagw_id = %s", pagw_id
        )
        assert audited == [("VALIDATED", ["RECEIVED", "PARSED", "VALIDATED"])]
        [(queue, body)] = pipeline.rows(
            "SELECT queue_name, message_body FROM pagw.outbox WHERE aggregate = %s AND queue_name = ANY(%s)",
            pagw_id,
            [each.name for each in QUEUES.values()],
        )
        assert queue == "pagw-request-enricher-queue"
        assert json.loads(body) | {"pagwId": pagw_id, "stage": "request-enricher"} == json.loads(body)

    await run_scenario(scenario)


@pytest.mark.proves("PG-25")
def test_numbers_of_the_outbox_are_the_documents_and_settings() -> None:
    documented = build_outbox(PagwSettings.load({}))
    assert (documented.poll_s, documented.batch_size, documented.max_attempts) == (5.0, 25, 5)
    variables = {
        "PAGW_OUTBOX_POLL_INTERVAL_MS": "250",
        "PAGW_OUTBOX_BATCH_SIZE": "7",
        "PAGW_OUTBOX_MAX_RETRIES": "3",
    }
    changed = build_outbox(PagwSettings.load(variables))
    assert (changed.poll_s, changed.batch_size, changed.max_attempts) == (0.25, 7, 3)
