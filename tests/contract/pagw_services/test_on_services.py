"""The gateway unchanged on DynamoDB, SQS, S3, PostgreSQL, Redis and Secrets Manager: told by settings alone, asked over
HTTP, and then looked at in each service, by clients that know nothing of it.

What needs several writers at once is proved elsewhere: moto, which stands in for AWS here, does not isolate them.
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
from pagw.demo.sample.bundles import PEOPLE, SampleAttachment, build_request_bundle
from pagw.demo.sandbox.payer_rules import DENIED, PENDED_APPROVED
from pagw.demo.sandbox.payer_state import AUTHORIZATION
from pagw.settings import PagwSettings
from tests.acceptance.pagw.gateway import FHIR, Gateway, fresh, outcome_of

from .services import CACHE_PASSWORD, DATABASE, DATABASE_PASSWORD, KEY_ALIAS, SECRETS, Services

TABLE = "pagw-idempotency-dev"
REQUESTS = "crln-pagw-dev-dataz-gbd-phi-useast2"
AUDIT = "crln-pagw-dev-logz-nogbd-nophi-useast2"
SEVEN_YEARS_DAYS, EIGHT_YEARS_DAYS = 7 * 365 + 2, 8 * 365 + 3
STAGES = (
    "request-enricher",
    "attachment-handler",
    "request-converter",
    "api-connector",
    "response-builder",
    "callback-handler",
    "subscription-handler",
)
# The document's attributes of an idempotency key, and those by which a claim is held, finished and answered again.
DOCUMENTED = {"idempotencyKey", "pagwId", "responseHash", "statusCode", "expiresAt"}
OURS = {"payloadSha256", "status", "owner", "revision", "attempts", "result", "createdAt"} | {
    "lastProcessedAt",
    "responseKey",
}


@dataclass(frozen=True)
class Course:
    """Three requests that came to their end: approved, denied within the call, and decided after a while."""

    key: str
    bundle: dict[str, Any]
    approved: str
    denied: str
    pended: str

    @property
    def ids(self) -> set[str]:
        return {self.approved, self.denied, self.pended}


@pytest.fixture(scope="module")
def course(gateway: Gateway) -> Course:
    key, told = fresh("key"), {"x-callback-url": f"{gateway.parties.client_url}/callbacks/acme"}
    bundle = build_request_bundle(
        reference=fresh("R"), attachments=[SampleAttachment(content=b"Seen twice.")]
    )
    approved = gateway.accepted(bundle, key=key, **told)
    pended = gateway.accepted(build_request_bundle(reference=fresh("R"), items=[PENDED_APPROVED]), **told)
    answer = gateway.claim(build_request_bundle(reference=fresh("R"), items=[DENIED]))
    assert answer.status_code == 200, answer.text
    denied = re.search(r"PAGW-[0-9A-Z]{26}", answer.text)
    assert denied is not None
    gateway.ended(pended, "acme", "PENDED")
    gateway.decide(pended)
    made = Course(key, bundle, approved, denied[0], pended)
    for each in made.ids:
        gateway.ended(each)
        gateway.delivered(each)
    return made


@pytest.mark.proves("PG-49")
@pytest.mark.proves("PG-X18")
def test_requests_are_answered_as_on_a_laptop(gateway: Gateway, course: Course) -> None:
    stands = {each: gateway.get(f"/pas/requests/{each}").json() for each in course.ids}
    assert {each["status"] for each in stands.values()} == {"COMPLETED"}
    decisions = [stands[each]["decision"] for each in (course.approved, course.denied, course.pended)]
    assert decisions == ["approved", "denied", "approved"]
    assert gateway.get(f"/pas/requests/{course.approved}/bundle").json() == course.bundle
    assert {each: asked_of_payer(gateway)[each] for each in course.ids} == dict.fromkeys(course.ids, 1)
    told = {each.pagw_id for each in gateway.parties.client.received.values()}
    assert course.ids & told == {course.approved, course.pended}


@pytest.mark.proves("PG-4")
def test_dynamodb_has_the_documents_item_and_ends_it_by_itself(
    gateway: Gateway, course: Course, services: Services
) -> None:
    tables = services.aws("dynamodb")
    keys = tables.describe_table(TableName=TABLE)["Table"]["KeySchema"]
    assert keys == [{"AttributeName": "idempotencyKey", "KeyType": "HASH"}]
    lifetimes = tables.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
    assert lifetimes == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expiresAt"}
    item = tables.get_item(TableName=TABLE, Key={"idempotencyKey": {"S": f"acme:{course.key}"}})["Item"]
    assert set(item) == DOCUMENTED | OURS
    assert (item["pagwId"], item["statusCode"]) == ({"S": course.approved}, {"N": "202"})
    assert re.fullmatch("[0-9a-f]{64}", item["responseHash"]["S"])
    assert 47 * 3600 < int(item["expiresAt"]["N"]) - gateway.stores.clock.now() <= 48 * 3600

    again = gateway.submit(course.bundle, key=course.key)
    assert (again.status_code, again.json()["pagwId"]) == (202, course.approved)
    outcome_of(gateway.submit(key=course.key), 422)


@pytest.mark.proves("PG-29")
@pytest.mark.proves("PG-32")
@pytest.mark.proves("PG-33")
@pytest.mark.proves("PG-35")
def test_s3_has_bundles_under_the_documents_keys_encrypted_by_the_environments_key(
    course: Course, services: Services
) -> None:
    found = objects(services, REQUESTS, course.approved)
    assert {key.partition(f"{course.approved}/")[2]: told["ContentType"] for key, told in found.items()} == {
        "request/original_bundle.json": FHIR,
        "request/parsed_claim.json": "application/json",
        "request/enriched_request.json": "application/json",
        "request/payer_request.bin": "application/octet-stream",
        "response/payer_response.json": "application/json",
        "response/fhir_claim_response.json": FHIR,
        "attachments/attachment_001.txt": "application/octet-stream",
    }
    assert all(re.match(r"\d{6}/PAGW-", key) for key in found)
    assert {encryption(told) for told in found.values()} == {("aws:kms", KEY_ALIAS, True)}
    later = objects(services, REQUESTS, course.pended)
    assert [key for key in later if key.endswith(f"{course.pended}/callbacks/callback_001.json")]
    body = services.aws("s3").get_object(Bucket=REQUESTS, Key=next(k for k in found if "original" in k))[
        "Body"
    ]
    assert json.loads(body.read()) == course.bundle


@pytest.mark.proves("PG-32")
@pytest.mark.proves("PG-57")
def test_s3_has_every_audit_event_in_the_audit_bucket(
    gateway: Gateway, course: Course, services: Services
) -> None:
    written = "SELECT event_uuid FROM pagw.audit_log WHERE pagw_id = %s"
    wanted = {uuid for (uuid,) in gateway.rows(written, course.approved)}

    def arrived() -> set[str]:
        return {key[-41:-5] for key in objects(services, AUDIT, course.approved)}

    until(lambda: arrived() == wanted)
    events = objects(services, AUDIT, course.approved)
    layout = rf"\d{{6}}/\d{{8}}/pas[a-z]+/\d\d/{course.approved}_[0-9a-f-]{{36}}\.json"
    assert len(events) >= len(STAGES) and all(re.fullmatch(layout, key) for key in events)
    assert {encryption(told) for told in events.values()} == {("AES256", None, False)}


@pytest.mark.proves("PG-29")
@pytest.mark.proves("PG-32")
@pytest.mark.proves("PG-36")
@pytest.mark.parametrize("bucket", [REQUESTS, AUDIT])
def test_s3s_buckets_are_shut_keep_versions_and_end_objects_when_seven_years_are_over(
    course: Course, services: Services, bucket: str
) -> None:
    s3 = services.aws("s3")
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
    # Files go with their rows, when a request has ended so long ago; S3 takes what somebody has left over.
    assert SEVEN_YEARS_DAYS <= days <= EIGHT_YEARS_DAYS
    assert {each["Status"] for each in rules} == {"Enabled"}


@pytest.mark.proves("PG-44")
def test_sqs_has_the_documents_queues_first_in_first_out_and_nothing_among_their_dead_letters(
    course: Course, services: Services
) -> None:
    sqs = services.aws("sqs")
    urls = {url.rpartition("/")[2]: url for url in sqs.list_queues()["QueueUrls"]}
    names = [f"pagw-{each}-queue" for each in (*STAGES, "notification", "audit")]
    assert set(urls) == {f"{name}{dead}-dev.fifo" for name in names for dead in ("", "-dead")}
    for name in names:
        told = attributes(sqs, urls[f"{name}-dev.fifo"])
        dead = attributes(sqs, urls[f"{name}-dead-dev.fifo"])
        redrive = json.loads(told["RedrivePolicy"])
        assert (told["FifoQueue"], redrive["deadLetterTargetArn"]) == ("true", dead["QueueArn"])
        assert int(redrive["maxReceiveCount"]) > 1
        assert dead["ApproximateNumberOfMessages"] == "0"


@pytest.mark.proves("PG-37")
@pytest.mark.proves("PG-39")
@pytest.mark.proves("PG-40")
@pytest.mark.proves("PG-41")
def test_redis_has_the_documents_keys_each_with_its_lifetime(
    gateway: Gateway, course: Course, services: Services
) -> None:
    # Whatever the other tests did to it: what a request needs is there when one has just been asked for.
    gateway.ended(gateway.accepted())
    (npi,) = gateway.rows(
        "SELECT provider_npi FROM pagw.request_tracker WHERE pagw_id = %s", course.approved
    )[0]
    with services.cache() as cache:
        token, lives_s = kept(cache, "dev:oauth:ACME-HEALTH")
        assert set(token) == {"access_token", "expires_at"}
        # The token itself lives a minute longer than it is kept.
        assert 0 < lives_s <= token["expires_at"] - gateway.stores.clock.now() - 59
        provider, lives_s = kept(cache, f"dev:provider:{npi}")
        assert {"name", "endpoints", "credentials_arn"} <= set(provider) and 0 < lives_s <= 300
        payer, lives_s = kept(cache, "dev:payer:ACME-HEALTH")
        assert {"api_endpoint", "auth_type"} <= set(payer) and 0 < lives_s <= 300
        keys = set(cache.scan_iter())
        windows = [key for key in keys if key.startswith("dev:ratelimit:acme:")]
        # Each counts for its own minute and weighs in the next one.
        assert windows and all(0 < cache.ttl(key) <= 120 for key in windows)
        assert {key.split(":")[1] for key in keys} == {"oauth", "provider", "payer", "ratelimit"}


def test_postgresql_has_the_rows_in_schema_pagw_and_nothing_of_a_patient(
    gateway: Gateway, course: Course
) -> None:
    rows = gateway.rows(
        "SELECT pagw_id, status, s3_bucket, s3_request_key, s3_response_key FROM pagw.request_tracker "
        "WHERE pagw_id = ANY(%s)",
        list(course.ids),
    )
    assert {row[0]: row[1:3] for row in rows} == dict.fromkeys(course.ids, ("COMPLETED", REQUESTS))
    assert all(row[3].endswith("original_bundle.json") and row[4].endswith("response.json") for row in rows)
    events = gateway.rows(
        "SELECT DISTINCT service_name FROM pagw.audit_log WHERE pagw_id = %s", course.approved
    )
    assert {f"pas{each.replace('-', '')}" for each in STAGES} <= {name for (name,) in events}
    for table in ("request_tracker", "request_lookup", "outbox", "inbox", "audit_log", "deliveries"):
        (shown,) = gateway.rows(f"SELECT string_agg(t::text, ' ') FROM pagw.{table} t")[0]
        assert not [secret for person in PEOPLE for secret in person.secrets if secret in shown]


@pytest.mark.proves("PG-56")
def test_passwords_come_from_secrets_manager_and_stand_in_no_variable_or_log(
    gateway: Gateway, course: Course, services: Services, log: Path
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
def test_an_operator_is_told_of_every_service_and_of_a_request_in_all_of_them(
    course: Course, services: Services
) -> None:
    with patch_environ(services.variables):
        health = CliRunner().invoke(app, ["doctor", "--json"])
        trail = CliRunner().invoke(app, ["why", "pagw", course.approved, "--component", "operator"])
    engines = {each["store"]: each["engine"] for each in json.loads(health.output) if each["ok"]}
    assert engines == {
        "tables": "dynamodb",
        "queues": "sqs",
        "objects": "s3",
        "sql": "postgresql",
        "cache": "redis",
    }
    assert (health.exit_code, trail.exit_code) == (0, 0)
    for told in ("key (submission): processed", "STATUS COMPLETED", f"{course.approved}/response/fhir_claim"):
        assert told in trail.output


@pytest.mark.proves("PG-41")
def test_the_documentation_gives_production_the_settings_that_this_gateway_was_given(
    services: Services,
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "deploying.md").read_text(encoding="utf-8")
    told = {
        name: shlex.split(value)[0] for name, value in re.findall(r"^export (\w+)=(.+)$", page, re.MULTILINE)
    }
    given = services.variables.keys() - {"AWS_DEFAULT_REGION"}
    assert {name for name in told if name.startswith("HOLDFAST_")} == given
    assert Settings.load(environ=told).environment == "prod"
    own = PagwSettings.load(told)
    assert own.jwks_url and own.token_issuer and own.public_url.startswith("https://")
    assert own.idempotency and not own.private_targets


@pytest.mark.proves("PG-42")
def test_a_cache_that_is_emptied_and_then_killed_amid_requests_loses_none_of_them(
    gateway: Gateway, services: Services
) -> None:
    session = gateway.post("/sessions").json()["session"]
    asked = [gateway.accepted() for _ in range(2)]
    with services.cache() as cache:
        cache.flushall()
    asked += [gateway.accepted() for _ in range(2)]
    services.redis.kill()
    try:
        asked += [
            gateway.accepted(),
            gateway.accepted(build_request_bundle(reference=fresh("R"), items=[DENIED])),
        ]
        at_once = gateway.claim(build_request_bundle(reference=fresh("R")))
        assert at_once.status_code == 200, at_once.text
        ends = [gateway.ended(each)["status"] for each in asked]
    finally:
        services.redis.start()
    assert ends == ["COMPLETED"] * len(asked)
    assert [asked_of_payer(gateway)[each] for each in asked] == [1] * len(asked)
    # What is lost is a log-in; for a moment after the cache was away nobody can tell yet.
    path, named = f"/pas/requests/{asked[0]}", {"authorization": f"Session {session}"}
    until(lambda: gateway.http.get(path, headers=named).status_code != 503)
    outcome_of(gateway.http.get(path, headers=named), 401)


# --- looking ------------------------------------------------------------------------------------------------


def asked_of_payer(gateway: Gateway) -> Counter[str]:
    """How often each request took effect at the payer, by its own ledger."""
    entries = gateway.parties.payer.ledger
    return Counter(each["reference"] for each in entries if each["what"] == AUTHORIZATION)


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < ends, "it did not come so far"
        time.sleep(0.1)


def objects(services: Services, bucket: str, pagw_id: str) -> dict[str, dict[str, Any]]:
    """Those of a request, by their keys."""
    s3 = services.aws("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [each["Key"] for page in pages for each in page.get("Contents", []) if pagw_id in each["Key"]]
    return {key: s3.head_object(Bucket=bucket, Key=key) for key in keys}


def encryption(told: dict[str, Any]) -> tuple[str, str | None, bool]:
    return told["ServerSideEncryption"], told.get("SSEKMSKeyId"), told.get("BucketKeyEnabled", False)


def attributes(sqs: Any, url: str) -> dict[str, str]:
    told: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return told


def kept(cache: Redis, key: str) -> tuple[dict[str, Any], int]:
    """A value and how long it lives, in seconds; before it stands when it ends, by our clock."""
    _, _, value = str(cache.get(key)).partition(":")
    return json.loads(value), int(cache.ttl(key))
