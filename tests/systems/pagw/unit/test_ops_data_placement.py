"""Declared data placement: environments, buckets, object keys, and the data allowed in each store."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.model.cache import CacheOperation
from holdfast.model.objects import ObjectOperation
from holdfast.model.sql import SqlOperation
from pagw.model import delivery_patterns, entities, files, patterns
from pagw.model.environments import ENVIRONMENTS, get_audit_bucket_name, get_request_bucket_name
from pagw.model.load_profile import LOAD
from pagw.ops.legal_holds import get_folder
from pagw.settings import PagwSettings
from pagw.system import SYSTEM

ID = "PAGW-01JBX0000000000000000000AA"
RESOURCE_NAME = re.compile(r"(?:pagw-idempotency-|pagw/aurora/|crln-)[A-Za-z0-9$-]+")
NOVEMBER = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
PAGE = Path(__file__).parents[4] / "docs" / "systems" / "pagw" / "index.md"


@pytest.mark.proves("PG-48", "PG-4")
def test_environments_match_the_document() -> None:
    assert {name: (each.region, each.idempotency_table) for name, each in ENVIRONMENTS.items()} == {
        "local": ("us-east-1", "pagw-idempotency-local"),
        "dev": ("us-east-2", "pagw-idempotency-dev"),
        "sit": ("us-east-2", "pagw-idempotency-sit"),
        "preprod": ("us-east-1", "pagw-idempotency-preprod"),
        "prod": ("us-east-1", "pagw-idempotency-prod"),
    }
    assert ENVIRONMENTS["local"].database == "localhost:5432"
    for name, each in ENVIRONMENTS.items():
        assert entities.idempotency.physical_name(name) == each.idempotency_table
        assert SYSTEM.deployment.environments[name] == each.region
        if name != "local":
            assert each.database == f"*.{each.region}.rds.amazonaws.com"


@pytest.mark.proves("PG-29", "PG-X17")
def test_bucket_names_contain_the_region_of_their_environment() -> None:
    for name, digit in (("local", 1), ("dev", 2), ("sit", 2), ("preprod", 1), ("prod", 1)):
        requests, audit = (
            f"crln-pagw-{name}-dataz-gbd-phi-useast{digit}",
            f"crln-pagw-{name}-logz-nogbd-nophi-useast{digit}",
        )
        assert (get_request_bucket_name(name), get_audit_bucket_name(name)) == (requests, audit)
        assert entities.requests_bucket.physical_name(name) == requests
        assert entities.audit_events_bucket.physical_name(name) == audit
    assert entities.attachment.bucket is entities.requests_bucket, "attachments are in the request bucket"


@pytest.mark.proves("PG-30", "PG-34", "PG-X16")
def test_object_keys_match_the_document_and_use_the_creation_month() -> None:
    made = {
        files.keep_bundle(b"", NOVEMBER, ID).key: "request/original_bundle.json",
        files.keep_parsed(b"", NOVEMBER, ID).key: "request/parsed_claim.json",
        files.keep_enriched(b"", NOVEMBER, ID).key: "request/enriched_request.json",
        files.keep_payer_response(b"", NOVEMBER, ID).key: "response/payer_response.json",
        files.keep_response(b"", NOVEMBER, ID).key: "response/fhir_claim_response.json",
        files.keep_attachment(b"", NOVEMBER, ID, "001.pdf").key: "attachments/attachment_001.pdf",
        files.keep_callback(b"", NOVEMBER, ID, "002").key: "callbacks/callback_002.json",
    }
    assert {key: f"202611/{ID}/{name}" for key, name in made.items()} == {key: key for key in made}
    # Reads derive keys from the stored creation time, never from the current month.
    assert files.bundle(NOVEMBER, ID).key in made and files.response(NOVEMBER, ID).key in made
    assert get_folder(NOVEMBER, ID) == f"202611/{ID}"


@pytest.mark.proves("PG-31")
def test_audit_event_key_matches_the_document() -> None:
    uuid = "6f1c3c1e-3f6f-4a53-9d7a-0c7a1c5a9d10"
    made = files.keep_audit_event(b"", NOVEMBER, "pasorchestrator", ID, uuid)
    assert made.key == f"202611/20261130/pasorchestrator/23/{ID}_{uuid}.json"
    assert made.object_kind.bucket is entities.audit_events_bucket


@pytest.mark.proves("PG-3", "PG-2")
def test_stores_hold_only_the_data_that_the_matrix_assigns() -> None:
    """Check section 8 of the document against everything the model declares."""
    assert [each.name for each in SYSTEM.tables] == ["pagw-idempotency"]
    assert [each.__name__ for each in entities.idempotency.entities] == ["IdempotencyRecord"]
    for tracking in (
        patterns.create_request,
        patterns.advance,
        delivery_patterns.create_delivery,
        patterns.OUTBOX.append,
    ):
        assert isinstance(tracking.build_example(), SqlOperation)
    for bundle in (files.keep_bundle, files.keep_attachment, files.keep_response, files.keep_audit_event):
        assert isinstance(bundle.build_example(), ObjectOperation)
    assert isinstance(patterns.record_audit.build_example(), SqlOperation), (
        "the audit is in SQL and in objects"
    )
    cached = {
        each.build_example().resource
        for each in SYSTEM.patterns
        if isinstance(each.build_example(), CacheOperation)
    }
    assert cached == {
        "oauth:{payer_id}", "ratelimit:{tenant}:{window}", "provider:{npi}", "payer:{payer_id}",
        "session:{tenant}:{id}",
    }  # fmt: skip
    # Only objects hold bytes, and the model declares every cache entry: no bundle can end up elsewhere.
    for each in SYSTEM.patterns:
        operation = each.build_example()
        if not isinstance(operation, ObjectOperation | CacheOperation):
            assert not any(isinstance(value, bytes) for value in vars(operation).values()), each.id


@pytest.mark.proves("PG-3")
def test_only_components_that_need_bundles_read_them() -> None:
    readers = {each.name for each in SYSTEM.components if files.bundle in each.patterns}
    assert readers == {
        "api",
        "pasattachmenthandler",
        "pasrequestconverter",
        "pasresponsebuilder",
        "pasnotifier",
        # Only when a user with the role `personal` reveals the page of a request, which is audited.
        "console",
    } | (readers & {"pasrequestenricher"})
    for name in ("operator", "sweeper", "agent", "pasauditarchive", "outboxpublisher", "payer-callbacks"):
        kinds = {
            each.build_example().kind
            for each in SYSTEM.get_component(name).patterns
            if each is not files.payer_request
        }
        assert "GetObject" not in kinds, name


def test_every_rate_has_a_volume_and_every_volume_a_rate() -> None:
    wanted = {each.rate.per for each in SYSTEM.patterns}
    assert wanted == set(LOAD.volumes)


@pytest.mark.proves("PG-X20", "PG-X3")
def test_retention_is_at_least_six_years_and_seven_by_default() -> None:
    assert PagwSettings.load({}).retention_years == 7
    assert PagwSettings.load({"PAGW_RETENTION_YEARS": "6"}).retention_years == 6
    with pytest.raises(Exception, match="from 6 to 100"):
        PagwSettings.load({"PAGW_RETENTION_YEARS": "5"})


@pytest.mark.proves("PG-51")
def test_commands_of_the_page_name_the_resources_that_the_gateway_uses() -> None:
    """A changed name, on the page or in a declaration, would name something that does not exist."""
    commands = [
        each for each in PAGE.read_text().splitlines() if each.startswith(("aws ", "psql ", "redis-cli "))
    ]
    verbs = {tuple(each.split()[:3]) for each in commands if each.startswith("aws ")}
    assert verbs >= {
        ("aws", "secretsmanager", "get-secret-value"),
        ("aws", "dynamodb", "describe-table"),
        ("aws", "s3", "ls"),
        ("aws", "s3api", "head-bucket"),
    }
    named = {match[0] for each in commands for match in RESOURCE_NAME.finditer(each)}
    for name, each in ENVIRONMENTS.items():
        expected = {
            f"pagw-idempotency-{name}": entities.idempotency.physical_name(name),
            f"pagw/aurora/{name}": f"pagw/aurora/{each.name}",
        }
        assert {found.replace("$ENV", name) for found in named if "$ENV" in found} == set(expected.values())
    buckets = {found for found in named if found.startswith("crln-")}
    assert len(buckets) == 2
    assert buckets <= {get_request_bucket_name(each) for each in ENVIRONMENTS}
    cache = next(each for each in commands if each.startswith("redis-cli "))
    assert cache.endswith("-p 6379 --tls")


@pytest.mark.proves("PG-50", "PG-X19")
def test_the_page_covers_the_documented_operator_commands() -> None:
    text = PAGE.read_text()
    for command in (
        "aws secretsmanager get-secret-value --secret-id pagw/aurora/",
        "aws dynamodb describe-table --table-name pagw-idempotency-",
        "aws s3 ls s3://crln-pagw-",
        "redis-cli -h $ELASTICACHE_ENDPOINT -p 6379 --tls",
        "holdfast doctor",
        "LocalStack",
        "ElastiCache",
    ):
        assert command in text, command
    for command in ("status", "stuck", "overdue", "metrics", "replay", "holds place", "retain", "secrets"):
        assert f"holdfast pagw {command}" in text, command
