"""The unchanged gateway on moto's AWS, PostgreSQL and Redis, inspected in each by other clients.

It is configured by settings alone and called over HTTP. moto replaces AWS here.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError
from redis.retry import Retry
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.config.settings import Settings
from holdfast.web.demo_env import patch_environ
from holdfast_demo.pagw.sample.bundles import PEOPLE, SampleAttachment, build_request_bundle
from holdfast_demo.pagw.sandbox.payer_rules import DENIED, PENDED_APPROVED
from holdfast_demo.pagw.sandbox.payer_state import AUTHORIZATION
from pagw.settings import PagwSettings
from tests.systems.pagw.acceptance.gateway import FHIR, Gateway, expect_outcome, make_unique
from tests.systems.pagw.documented_order import STAGES
from tests.systems.pagw.idempotency_keys import build_idempotency_key

from .services import CACHE_PASSWORD, DATABASE, DATABASE_PASSWORD, KEY_ALIAS, SECRETS, Services

TABLE = "pagw-idempotency-dev"
REQUESTS = "crln-pagw-dev-dataz-gbd-phi-useast2"
AUDIT = "crln-pagw-dev-logz-nogbd-nophi-useast2"
SEVEN_YEARS_DAYS, EIGHT_YEARS_DAYS = 7 * 365 + 2, 8 * 365 + 3
# The document's attributes of an idempotency record, and ours for claiming, completing and replaying.
DOCUMENTED = {"idempotencyKey", "pagwId", "responseHash", "statusCode", "expiresAt"}
OURS = {"payloadSha256", "status", "owner", "revision", "attempts", "result", "createdAt"} | {
    "lastProcessedAt",
    "responseKey",
}


@dataclass(frozen=True)
class FinishedRequests:
    """Three finished requests: approved, denied within the call, and decided later."""

    key: str
    bundle: dict[str, Any]
    approved: str
    denied: str
    pended: str

    @property
    def ids(self) -> set[str]:
        return {self.approved, self.denied, self.pended}


@pytest.fixture(scope="module")
def finished_requests(gateway: Gateway) -> FinishedRequests:
    key, result = make_unique("key"), {"x-callback-url": f"{gateway.services.client_url}/callbacks/acme"}
    bundle = build_request_bundle(
        reference=make_unique("R"), attachments=[SampleAttachment(content=b"Seen twice.")]
    )
    approved = gateway.submit_accepted(bundle, key=key, **result)
    pended = gateway.submit_accepted(
        build_request_bundle(reference=make_unique("R"), items=[PENDED_APPROVED]), **result
    )
    answer = gateway.submit_claim(build_request_bundle(reference=make_unique("R"), items=[DENIED]))
    assert answer.status_code == 200, answer.text
    denied = re.search(r"PAGW-[0-9A-Z]{26}", answer.text)
    assert denied is not None
    gateway.wait_for_end(pended, "acme", "PENDED")
    gateway.decide_at_payer(pended)
    made = FinishedRequests(key, bundle, approved, denied[0], pended)
    for each in made.ids:
        gateway.wait_for_end(each)
        gateway.wait_for_deliveries(each)
    return made


@pytest.mark.proves("PG-49")
def test_all_services_of_the_documents_local_stack_are_used_behind_one_endpoint(
    gateway: Gateway, finished_requests: FinishedRequests, services: Services
) -> None:
    """The document lists sqs, s3, secretsmanager, kms and dynamodb, all at port 4566 of one host."""
    settings = {name: value for name, value in services.variables.items() if services.address in value}
    assert {value.partition("+")[0] for value in settings.values()} == {
        "sqs",
        "s3",
        "secretsmanager",
        "kms",
        "dynamodb",
    }
    queues = services.client("sqs").list_queues()["QueueUrls"]
    assert {url.rpartition("/")[2].removesuffix("-dev.fifo").removesuffix(".fifo") for url in queues} >= {
        f"pagw-{stage}-queue" for stage in STAGES if stage != "done"
    }
    assert services.client("dynamodb").scan(TableName=TABLE)["Count"] >= len(finished_requests.ids)
    assert services.client("s3").list_objects_v2(Bucket=REQUESTS)["KeyCount"] >= 3 * 4
    used = services.client("secretsmanager").list_secrets()["SecretList"]
    assert {each["Name"] for each in used} >= SECRETS.keys()
    [head] = [
        services.client("s3").head_object(Bucket=REQUESTS, Key=each["Key"])
        for each in services.client("s3").list_objects_v2(Bucket=REQUESTS, MaxKeys=1)["Contents"]
    ]
    assert head["ServerSideEncryption"] == "aws:kms"


@pytest.mark.proves("PG-X18")
def test_requests_are_answered_as_on_embedded_engines(
    gateway: Gateway, finished_requests: FinishedRequests
) -> None:
    stands = {each: gateway.get(f"/pas/requests/{each}").json() for each in finished_requests.ids}
    assert {each["status"] for each in stands.values()} == {"COMPLETED"}
    decisions = [
        stands[each]["decision"]
        for each in (finished_requests.approved, finished_requests.denied, finished_requests.pended)
    ]
    assert decisions == ["approved", "denied", "approved"]
    assert (
        gateway.get(f"/pas/requests/{finished_requests.approved}/bundle").json() == finished_requests.bundle
    )
    assert {each: count_payer_effects(gateway)[each] for each in finished_requests.ids} == dict.fromkeys(
        finished_requests.ids, 1
    )
    notified = {each.pagw_id for each in gateway.services.client.received.values()}
    assert finished_requests.ids & notified == {finished_requests.approved, finished_requests.pended}


@pytest.mark.proves("PG-4")
def test_dynamodb_holds_the_documented_item_with_a_time_to_live(
    gateway: Gateway, finished_requests: FinishedRequests, services: Services
) -> None:
    tables = services.client("dynamodb")
    keys = tables.describe_table(TableName=TABLE)["Table"]["KeySchema"]
    assert keys == [{"AttributeName": "idempotencyKey", "KeyType": "HASH"}]
    lifetimes = tables.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
    assert lifetimes == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expiresAt"}
    key = build_idempotency_key("acme", finished_requests.key)
    item = tables.get_item(TableName=TABLE, Key={"idempotencyKey": {"S": key}})["Item"]
    assert set(item) == DOCUMENTED | OURS
    assert (item["pagwId"], item["statusCode"]) == ({"S": finished_requests.approved}, {"N": "202"})
    assert re.fullmatch("[0-9a-f]{64}", item["responseHash"]["S"])
    assert 47 * 3600 < int(item["expiresAt"]["N"]) - gateway.stores.clock.now() <= 48 * 3600

    again = gateway.submit(finished_requests.bundle, key=finished_requests.key)
    assert (again.status_code, again.json()["pagwId"]) == (202, finished_requests.approved)
    expect_outcome(gateway.submit(key=finished_requests.key), 422)


@pytest.mark.proves("PG-29", "PG-32", "PG-33", "PG-35")
def test_s3_holds_bundles_under_documented_keys_with_the_environment_key(
    finished_requests: FinishedRequests, services: Services
) -> None:
    found = list_objects(services, REQUESTS, finished_requests.approved)
    assert {
        key.partition(f"{finished_requests.approved}/")[2]: result["ContentType"]
        for key, result in found.items()
    } == {
        "request/original_bundle.json": FHIR,
        "request/parsed_claim.json": "application/json",
        "request/enriched_request.json": "application/json",
        "request/payer_request.bin": "application/octet-stream",
        "response/payer_response.json": "application/json",
        "response/fhir_claim_response.json": FHIR,
        "attachments/attachment_001.txt": "application/octet-stream",
    }
    assert all(re.match(r"\d{6}/PAGW-", key) for key in found)
    assert {get_encryption(result) for result in found.values()} == {("aws:kms", KEY_ALIAS, True)}
    later = list_objects(services, REQUESTS, finished_requests.pended)
    assert [key for key in later if key.endswith(f"{finished_requests.pended}/callbacks/callback_001.json")]
    body = services.client("s3").get_object(Bucket=REQUESTS, Key=next(k for k in found if "original" in k))[
        "Body"
    ]
    assert json.loads(body.read()) == finished_requests.bundle


@pytest.mark.proves("PG-32", "PG-57")
def test_s3_holds_every_audit_event_in_the_audit_bucket(
    gateway: Gateway, finished_requests: FinishedRequests, services: Services
) -> None:
    written = "SELECT event_uuid FROM pagw.audit_log WHERE pagw_id = %s"
    wanted = {uuid for (uuid,) in gateway.rows(written, finished_requests.approved)}

    def list_arrived() -> set[str]:
        return {key[-41:-5] for key in list_objects(services, AUDIT, finished_requests.approved)}

    wait_until(lambda: list_arrived() == wanted)
    events = list_objects(services, AUDIT, finished_requests.approved)
    layout = rf"\d{{6}}/\d{{8}}/pas[a-z]+/\d\d/{finished_requests.approved}_[0-9a-f-]{{36}}\.json"
    assert len(events) >= len(STAGES) and all(re.fullmatch(layout, key) for key in events)
    assert {get_encryption(result) for result in events.values()} == {("AES256", None, False)}


@pytest.mark.proves("PG-29", "PG-32", "PG-36")
@pytest.mark.parametrize("bucket", [REQUESTS, AUDIT])
def test_s3_buckets_are_private_versioned_and_expire_after_seven_years(
    finished_requests: FinishedRequests, services: Services, bucket: str
) -> None:
    s3 = services.client("s3")
    assert (
        s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]["x-amz-bucket-region"] == "us-east-2"
    )
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    blocked = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True} and len(blocked) == 4
    (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    by_default = rule["ApplyServerSideEncryptionByDefault"]
    wanted = ("aws:kms", KEY_ALIAS, True) if bucket == REQUESTS else ("AES256", None, False)
    assert (by_default["SSEAlgorithm"], by_default.get("KMSMasterKeyID"), rule["BucketKeyEnabled"]) == wanted
    rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    (days,) = [each["Expiration"]["Days"] for each in rules if "Days" in each.get("Expiration", {})]
    # Retention deletes files together with their rows; the lifecycle rule of S3 only removes leftovers.
    assert SEVEN_YEARS_DAYS <= days <= EIGHT_YEARS_DAYS
    assert {each["Status"] for each in rules} == {"Enabled"}


@pytest.mark.proves("PG-44")
def test_sqs_has_the_documented_fifo_queues_and_no_dead_letters(
    finished_requests: FinishedRequests, services: Services
) -> None:
    sqs = services.client("sqs")
    urls = {url.rpartition("/")[2]: url for url in sqs.list_queues()["QueueUrls"]}
    names = [f"pagw-{each}-queue" for each in (*STAGES, "notification", "audit")]
    assert set(urls) == {f"{name}{dead}-dev.fifo" for name in names for dead in ("", "-dead")}
    for name in names:
        result = get_queue_attributes(sqs, urls[f"{name}-dev.fifo"])
        dead = get_queue_attributes(sqs, urls[f"{name}-dead-dev.fifo"])
        redrive = json.loads(result["RedrivePolicy"])
        assert (result["FifoQueue"], redrive["deadLetterTargetArn"]) == ("true", dead["QueueArn"])
        assert int(redrive["maxReceiveCount"]) > 1
        assert dead["ApproximateNumberOfMessages"] == "0"


@pytest.mark.proves("PG-37", "PG-39", "PG-40", "PG-41")
def test_redis_holds_the_documented_keys_with_their_lifetimes(
    gateway: Gateway, finished_requests: FinishedRequests, services: Services
) -> None:
    # Other tests may have emptied the cache: a new request fills it again.
    gateway.wait_for_end(gateway.submit_accepted())
    (npi,) = gateway.rows(
        "SELECT provider_npi FROM pagw.request_tracker WHERE pagw_id = %s", finished_requests.approved
    )[0]
    with services.cache() as cache:
        token, lives_s = read_cached(cache, "dev:oauth:ACME-HEALTH")
        assert set(token) == {"access_token", "expires_at"}
        # The token itself lives a minute longer than its cache entry.
        assert 0 < lives_s <= token["expires_at"] - gateway.stores.clock.now() - 59
        provider, lives_s = read_cached(cache, f"dev:provider:{npi}")
        assert {"name", "endpoints", "credentials_arn"} <= set(provider) and 0 < lives_s <= 300
        payer, lives_s = read_cached(cache, "dev:payer:ACME-HEALTH")
        assert {"api_endpoint", "auth_type"} <= set(payer) and 0 < lives_s <= 300
        keys = set(cache.scan_iter())
        windows = [key for key in keys if key.startswith("dev:ratelimit:acme:")]
        # Each counter covers its own minute and still counts in the next one.
        assert windows and all(0 < cache.ttl(key) <= 120 for key in windows)
        assert {key.split(":")[1] for key in keys} == {"oauth", "provider", "payer", "ratelimit"}


def test_postgresql_holds_the_rows_and_no_patient_data(
    gateway: Gateway, finished_requests: FinishedRequests
) -> None:
    rows = gateway.rows(
        "SELECT pagw_id, status, s3_bucket, s3_request_key, s3_response_key FROM pagw.request_tracker "
        "WHERE pagw_id = ANY(%s)",
        list(finished_requests.ids),
    )
    assert {row[0]: row[1:3] for row in rows} == dict.fromkeys(finished_requests.ids, ("COMPLETED", REQUESTS))
    assert all(row[3].endswith("original_bundle.json") and row[4].endswith("response.json") for row in rows)
    events = gateway.rows(
        "SELECT DISTINCT service_name FROM pagw.audit_log WHERE pagw_id = %s", finished_requests.approved
    )
    assert {f"pas{each.replace('-', '')}" for each in STAGES} <= {name for (name,) in events}
    for table in ("request_tracker", "request_lookup", "outbox", "inbox", "audit_log", "deliveries"):
        (shown,) = gateway.rows(f"SELECT string_agg(t::text, ' ') FROM pagw.{table} t")[0]
        assert not [secret for person in PEOPLE for secret in person.secrets if secret in shown]


@pytest.mark.proves("PG-56")
def test_passwords_come_from_secrets_manager_and_appear_nowhere_else(
    gateway: Gateway, finished_requests: FinishedRequests, services: Services, log: Path
) -> None:
    given = json.dumps(services.variables) + log.read_text()
    assert not [value for value in (*SECRETS.values(), DATABASE_PASSWORD, CACHE_PASSWORD) if value in given]
    assert not [secret for person in PEOPLE for secret in person.secrets if secret in given]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(services.sql.url(DATABASE), password="another")
    at_once = Retry(NoBackoff(), 0)
    with Redis(port=services.redis.port, retry=at_once) as unknown, pytest.raises(AuthenticationError):
        unknown.ping()
    users = "SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = %s AND client_addr IS NOT NULL"
    assert gateway.rows(users, DATABASE) == [("gateway",)]


@pytest.mark.proves("PG-53")
def test_operator_sees_every_service_and_a_request_in_all_of_them(
    finished_requests: FinishedRequests, services: Services
) -> None:
    with patch_environ(services.variables):
        health = CliRunner().invoke(app, ["doctor", "--json"])
        trail = CliRunner().invoke(
            app, ["why", "pagw", finished_requests.approved, "--component", "operator"]
        )
    engines = {each["store"]: each["engine"] for each in json.loads(health.output) if each["ok"]}
    assert engines == {
        "tables": "dynamodb",
        "queues": "sqs",
        "objects": "s3",
        "sql": "postgresql",
        "cache": "redis",
    }
    assert (health.exit_code, trail.exit_code) == (0, 0)
    for result in (
        "key (submission): processed",
        "STATUS COMPLETED",
        f"{finished_requests.approved}/response/fhir_claim",
    ):
        assert result in trail.output


@pytest.mark.proves("PG-41")
def test_documentation_lists_the_settings_of_this_gateway(services: Services) -> None:
    page = (Path(__file__).parents[5] / "docs" / "guides" / "deployment.md").read_text(encoding="utf-8")
    documented = {
        name: shlex.split(value)[0] for name, value in re.findall(r"^export (\w+)=(.+)$", page, re.MULTILINE)
    }
    given = services.variables.keys() - {"AWS_DEFAULT_REGION"}
    assert {name for name in documented if name.startswith("HOLDFAST_")} == given
    assert Settings.load(environ=documented).environment == "prod"
    own = PagwSettings.load(documented)
    assert own.jwks_url and own.token_issuer and own.public_url.startswith("https://")
    assert own.idempotency and not own.private_targets


@pytest.mark.proves("PG-42")
def test_flushing_and_killing_the_cache_loses_no_request(gateway: Gateway, services: Services) -> None:
    session = gateway.post("/sessions").json()["session"]
    asked = [gateway.submit_accepted() for _ in range(2)]
    with services.cache() as cache:
        cache.flushall()
    asked += [gateway.submit_accepted() for _ in range(2)]
    services.redis.kill()
    try:
        asked += [
            gateway.submit_accepted(),
            gateway.submit_accepted(build_request_bundle(reference=make_unique("R"), items=[DENIED])),
        ]
        at_once = gateway.submit_claim(build_request_bundle(reference=make_unique("R")))
        assert at_once.status_code == 200, at_once.text
        ends = [gateway.wait_for_end(each)["status"] for each in asked]
    finally:
        services.redis.start()
    assert ends == ["COMPLETED"] * len(asked)
    assert [count_payer_effects(gateway)[each] for each in asked] == [1] * len(asked)
    # Only the session is lost. Shortly after the cache is back the answer may still be 503.
    path, named = f"/pas/requests/{asked[0]}", {"authorization": f"Session {session}"}
    wait_until(lambda: gateway.http.get(path, headers=named).status_code != 503)
    expect_outcome(gateway.http.get(path, headers=named), 401)


# --- helpers ------------------------------------------------------------------------------------------------


def count_payer_effects(gateway: Gateway) -> Counter[str]:
    """Count how often each request took effect at the payer, by the payer's ledger."""
    entries = gateway.services.payer.ledger
    return Counter(each["reference"] for each in entries if each["what"] == AUTHORIZATION)


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until the condition is true. Fail after twenty seconds."""
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends, "timed out"
        time.sleep(0.1)


def list_objects(services: Services, bucket: str, pagw_id: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a request by their keys."""
    s3 = services.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [each["Key"] for page in pages for each in page.get("Contents", []) if pagw_id in each["Key"]]
    return {key: s3.head_object(Bucket=bucket, Key=key) for key in keys}


def get_encryption(response: dict[str, Any]) -> tuple[str, str | None, bool]:
    """Return algorithm, key and bucket-key flag of an object's encryption."""
    return (
        response["ServerSideEncryption"],
        response.get("SSEKMSKeyId"),
        response.get("BucketKeyEnabled", False),
    )


def get_queue_attributes(sqs: Any, url: str) -> dict[str, str]:
    result: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return result


def read_cached(cache: Redis, key: str) -> tuple[dict[str, Any], int]:
    """Return a cached value and its time to live in seconds. The stored text starts with its expiry time."""
    _, _, value = str(cache.get(key)).partition(":")
    return json.loads(value), int(cache.ttl(key))
