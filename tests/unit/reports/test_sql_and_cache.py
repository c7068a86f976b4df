"""SQL and cache of the surgery in every report: listed, drawn, checked, provisioned and granted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Bucket, Component, Schema, System, pattern
from holdfast.mcp.tools import _is_destructive, _is_idempotent
from holdfast.model.cache import CachedValue, CacheHit, PutCached
from holdfast.model.objects import DeleteObject, GetObject
from holdfast.model.sql import SqlChange, SqlRows
from holdfast.reports.design.design_check import apply_rules
from holdfast.reports.design.rules.base import Design
from holdfast.reports.docs.mermaid import draw_access
from holdfast.reports.docs.system_page import render_system_page
from holdfast.reports.iac.cloudformation import build_template
from holdfast.reports.iac.terraform import render_module
from holdfast.reports.iam.policies import build_policy_files
from holdfast.reports.iam.sql_grants import collect_privileges
from holdfast.reports.pattern_list import build_pattern_rows
from holdfast.runtime.json_calls.results import to_result
from tests.unit.reports.docs.test_system_page import FLOW_LINES, find_unknown_lines
from tests.unit.reports.iac.validators import get_resources
from tests.unit.reports.surgery import SYSTEM, VISIT, Doctor, Visit, end, keep_scan, scans, surgery

TEMPLATE = build_template(SYSTEM)
FILES = render_module(SYSTEM)


def get_properties(logical: str) -> dict[str, Any]:
    found: dict[str, Any] = TEMPLATE["Resources"][logical]["Properties"]
    return found


# --- lists, documents, checks -------------------------------------------------------------------------------


def test_row_names_the_verb_and_the_table_or_key() -> None:
    rows = {row.id: (row.store, row.operation, row.table) for row in build_pattern_rows(SYSTEM)}

    assert rows["V1"] == ("sql", "INSERT", "surgery.visits")
    assert rows["V4"] == ("sql", "UPDATE", "surgery.visits")
    assert rows["C2"] == ("cache", "SET", "doctor:{id}")
    assert rows["O1"] == ("objects", "AdoptObject", "surgery-scans")


def test_page_describes_tables_statements_keys_and_lifetimes() -> None:
    page = render_system_page(SYSTEM)

    assert "## Tables and entities" not in page
    assert "Created by the migrations in `tests.unit.reports.surgery_migrations`." in page
    assert "| `surgery.prescriptions` | SELECT: V6 |" in page
    assert "| V3 | `SELECT id, patient, status FROM surgery.visits WHERE id = %(id)s` | Visit |" in page
    assert "| `doctor:{id}` | Doctor | 5 minutes at most | Who is on duty |" in page
    assert "| `calls:{patient}:{window}` | a count | 60 s |  |" in page
    assert "| former versions | kept 30 days |" in page
    assert "`acme-dev-scans-useast2`, `acme-prod-scans-useast1`" in page


def test_diagram_leads_to_sql_tables_and_cache_keys() -> None:
    flow = draw_access(SYSTEM)

    assert '[("surgery.prescriptions (SQL)")]' in flow
    assert '[("doctor:{id} (cache)")]' in flow
    assert find_unknown_lines(flow, FLOW_LINES) == []


def find_findings(*patterns: Any, **changes: Any) -> list[tuple[str, str]]:
    """Apply the design rules to the surgery with only these patterns; return (severity, message)."""
    system = replace(SYSTEM, patterns=patterns, components=(Component("one", uses=(patterns,)),), **changes)
    return [(each.severity, each.message) for each in apply_rules(Design(system))]


def test_surgery_has_no_design_errors() -> None:
    errors = [each for each in apply_rules(Design(SYSTEM)) if each.severity == "error"]

    assert errors == []


def test_change_of_every_row_is_an_error() -> None:
    @pattern("X1", "Close all", rate=VISIT, example=())
    def close_all() -> SqlChange:
        return surgery.change("UPDATE surgery.visits SET status = 'WHERE'")

    assert (
        "error",
        "It is a UPDATE of surgery.visits without WHERE: it changes every row.",
    ) in find_findings(close_all)


@pytest.mark.parametrize("columns", ["*", "v.*", "id, v.*"])
def test_select_star_is_an_error_and_a_count_is_not(columns: Any) -> None:
    @pattern("X1", "All of it", rate=VISIT, example=())
    def everything() -> SqlRows[Visit]:
        return surgery.rows(Visit, "SELECT " + columns + " FROM surgery.visits v LIMIT 10")

    @pattern("X2", "How many", rate=VISIT, example=())
    def how_many() -> SqlRows[Visit]:
        return surgery.rows(Visit, "SELECT count(*) AS id FROM surgery.visits LIMIT 2 * 3")

    expected = "It selects * from "
    assert [expected in message for _, message in find_findings(everything)].count(True) == 1
    assert not [message for _, message in find_findings(how_many) if expected in message]


def test_rows_without_a_limit_are_a_warning() -> None:
    @pattern("X1", "Every visit", rate=VISIT, example=())
    def everything() -> SqlRows[Visit]:
        return surgery.rows(Visit, "SELECT {columns} FROM surgery.visits")

    assert ("warning", "It returns every row of surgery.visits, without a limit.") in find_findings(
        everything
    )


def test_undeclared_schema_is_an_error() -> None:
    elsewhere = Schema("elsewhere", migrations="nowhere")

    @pattern("X1", "Another's", rate=VISIT, example=())
    def other() -> SqlChange:
        return elsewhere.change("DELETE FROM elsewhere.a WHERE id = 1")

    assert [message for _, message in find_findings(other) if "the schema elsewhere" in message]


def test_reports_values_cached_for_days() -> None:
    kept = CachedValue("kept:{id}", Doctor, lifetime_s=7 * 86_400)

    @pattern("X1", "Keep", rate=VISIT, example=lambda: (Doctor(name="a"), "1"))
    def keep(doctor: Doctor, id: str) -> PutCached[Doctor]:
        return kept.put(doctor, id=id)

    assert [message for level, message in find_findings(keep) if level == "info" and "for 7 days" in message]


def test_agent_tools_describe_statements_and_objects() -> None:
    begin = SYSTEM.get_pattern("V1").build_example()

    assert (
        _is_destructive(begin),
        _is_destructive(end.build_example()),
        _is_destructive(keep_scan.build_example()),
    ) == (
        False,
        True,
        False,
    )
    assert (_is_idempotent(end.build_example()), _is_idempotent(end("bo").idempotent())) == (False, True)


def test_agent_tools_return_rows_and_cached_values() -> None:
    visit = Visit(id=1, patient="ada", status="open")

    assert to_result(visit) == {"items": [visit.model_dump()], "count": 1, "cursor": None}
    assert to_result((visit, visit))["count"] == 2
    assert to_result(CacheHit(Doctor(name="Dr. No")))["items"] == [{"name": "Dr. No"}]
    assert to_result(CacheHit(None))["items"] == [None]
    assert to_result(3) == {"items": [], "count": 3, "cursor": None}


# --- infrastructure -----------------------------------------------------------------------------------------


def test_database_is_encrypted_retained_backed_up_with_a_managed_password() -> None:
    cluster = get_properties("DatabaseCluster")

    assert TEMPLATE["Resources"]["DatabaseCluster"]["DeletionPolicy"] == "Snapshot"
    assert cluster["DBClusterIdentifier"] == {"Fn::Sub": "surgery-${Environment}"}
    assert (cluster["DatabaseName"], cluster["ManageMasterUserPassword"]) == ("surgerydb", True)
    assert (cluster["StorageEncrypted"], cluster["DeletionProtection"]) == (True, True)
    assert cluster["BackupRetentionPeriod"] == 35
    assert get_properties("DatabaseParameters")["Parameters"] == {"rds.force_ssl": "1"}
    instances = [get_properties(each) for each in ("DatabaseWriter", "DatabaseReader")]
    assert [each["DBInstanceClass"] for each in instances] == ["db.serverless"] * 2
    assert not any(each["PubliclyAccessible"] for each in instances)
    assert TEMPLATE["Parameters"]["DatabaseSubnets"]["Type"] == "List<AWS::EC2::Subnet::Id>"


def test_each_component_with_sql_has_its_own_secret() -> None:
    secret = get_properties("DeskSqlSecret")

    assert secret["Name"] == {"Fn::Sub": "surgery/${Environment}/sql/desk"}
    assert json.loads(secret["GenerateSecretString"]["SecretStringTemplate"]) == {"username": "surgery_desk"}
    statements = get_properties("DeskPolicy")["PolicyDocument"]["Statement"]
    granted = {action: each["Resource"] for each in statements for action in each["Action"]}
    assert granted["secretsmanager:GetSecretValue"] == [{"Ref": "CacheSecret"}, {"Ref": "DeskSqlSecret"}]


@pytest.mark.proves("PG-X19")
def test_cache_is_encrypted_at_rest_and_in_transit_and_requires_a_password() -> None:
    group = get_properties("CacheGroup")

    assert (group["TransitEncryptionEnabled"], group["AtRestEncryptionEnabled"]) == (True, True)
    assert group["AuthToken"] == {"Fn::Sub": "{{resolve:secretsmanager:${CacheSecret}}}"}
    [same] = get_resources(FILES["elasticache.tf"], "aws_elasticache_replication_group").values()
    assert (same["transit_encryption_enabled"], same["at_rest_encryption_enabled"]) == (True, True)
    assert same["auth_token"] == "${random_password.cache.result}"


@pytest.mark.proves("PG-29")
@pytest.mark.proves("PG-X17")
def test_bucket_names_follow_environment_and_region() -> None:
    assert TEMPLATE["Mappings"]["BucketNames"] == {
        "dev": {"SurgeryScansBucket": "acme-dev-scans-useast2"},
        "prod": {"SurgeryScansBucket": "acme-prod-scans-useast1"},
    }
    assert TEMPLATE["Parameters"]["Environment"]["AllowedValues"] == ["dev", "prod"]
    assert get_properties("SurgeryScansBucket")["BucketName"] == {
        "Fn::FindInMap": ["BucketNames", {"Ref": "Environment"}, "SurgeryScansBucket"]
    }
    [bucket] = get_resources(FILES["s3.tf"], "aws_s3_bucket").values()
    assert "acme-dev-scans-useast2" in bucket["bucket"] and "[var.environment]" in bucket["bucket"]


@pytest.mark.proves("PG-32")
@pytest.mark.proves("PG-36")
def test_bucket_has_its_own_key_versions_lifetimes_and_requires_tls() -> None:
    bucket = get_properties("SurgeryScansBucket")

    assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"] == [
        {
            "BucketKeyEnabled": True,
            "ServerSideEncryptionByDefault": {
                "SSEAlgorithm": "aws:kms",
                "KMSMasterKeyID": {"Fn::GetAtt": ["SurgeryKey", "Arn"]},
            },
        }
    ]
    assert get_properties("SurgeryKeyAlias")["AliasName"] == {"Fn::Sub": "alias/surgery-${Environment}"}
    assert get_properties("SurgeryKey")["EnableKeyRotation"] is True
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    expiry, old = bucket["LifecycleConfiguration"]["Rules"]
    assert (expiry["ExpirationInDays"], old["NoncurrentVersionExpiration"]) == (2557, {"NoncurrentDays": 30})
    [refusal] = get_properties("SurgeryScansBucketPolicy")["PolicyDocument"]["Statement"]
    assert (refusal["Effect"], refusal["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


@pytest.mark.proves("PG-50")
def test_files_of_the_module_are_named_after_the_services() -> None:
    own = {"sqs.tf", "s3.tf", "kms.tf", "aurora.tf", "elasticache.tf"}

    assert own <= FILES.keys()
    assert not FILES.keys() & {"tables.tf", "queues.tf", "buckets.tf"}


def test_terraform_creates_the_same_database_key_and_secrets() -> None:
    [cluster] = get_resources(FILES["aurora.tf"], "aws_rds_cluster").values()
    [alias] = get_resources(FILES["kms.tf"], "aws_kms_alias").values()
    secrets = get_resources(FILES["aurora.tf"], "aws_secretsmanager_secret")
    versions = get_resources(FILES["aurora.tf"], "aws_secretsmanager_secret_version")
    [policy] = get_resources(FILES["s3.tf"], "aws_s3_bucket_policy").values()

    assert sorted(get_resources(FILES["aurora.tf"], "aws_rds_cluster_instance")) == ["reader", "writer"]
    assert (cluster["storage_encrypted"], cluster["deletion_protection"]) == (True, True)
    assert (cluster["manage_master_user_password"], cluster["backup_retention_period"]) == (True, 35)
    assert alias["name"] == "alias/surgery-${var.environment}"
    assert sorted(secrets) == ["archive_sql", "desk_sql", "doctor_sql"]
    assert 'username = "surgery_desk"' in versions["desk_sql"]["secret_string"]
    assert policy["policy"] == "${data.aws_iam_policy_document.surgery_scans_only_by_tls.json}"
    assert '"alias/surgery-${var.environment}"' in FILES["policies.tf"]


# --- policies -----------------------------------------------------------------------------------------------


def read_granted_actions(component: str) -> dict[str, list[str]]:
    """Return the resources of each action that the component's policy grants."""
    policy = json.loads(build_policy_files(SYSTEM, environment="dev")[f"surgery-{component}.json"])
    found: dict[str, list[str]] = {}
    for each in policy["Statement"]:
        for action in each["Action"]:
            found.setdefault(action, []).extend(each["Resource"])
    return found


def test_adopting_grants_put_and_get_of_the_objects_key_only() -> None:
    found = read_granted_actions("doctor")

    assert (
        found["s3:PutObject"] == found["s3:GetObject"] == ["arn:aws:s3:::acme-dev-scans-useast2/*/*/scan.pdf"]
    )
    assert {"kms:GenerateDataKey", "kms:Decrypt"} <= found.keys()
    assert "s3:DeleteObject" not in found
    assert "alias/surgery-dev" in build_policy_files(SYSTEM, environment="dev")["surgery-doctor.json"]


def test_key_outside_the_template_grants_all_keys_of_the_bucket() -> None:
    @pattern("X1", "Get by key", rate=VISIT, example=("202611/s1/other.txt",))
    def by_key(key: str) -> GetObject:
        return GetObject(scans, key)

    system = replace(SYSTEM, patterns=(by_key,), components=(Component("one", uses=(by_key,)),))
    [text] = build_policy_files(system, environment="dev").values()

    assert '"arn:aws:s3:::acme-dev-scans-useast2/*"' in text


def test_deleting_in_a_versioned_bucket_grants_deleting_all_versions() -> None:
    bucket = Bucket("versioned", versions=True)
    shelf = bucket.objects("all/{id}", content_type="text/plain")

    @pattern("X1", "Delete", rate=VISIT, example=("1",))
    def delete(id: str) -> DeleteObject:
        return shelf.delete(id=id)

    system = System(
        "one", "One.", patterns=(delete,), components=(Component("one", uses=(delete,)),), buckets=(bucket,)
    )
    actions = {
        action
        for text in build_policy_files(system).values()
        for each in json.loads(text)["Statement"]
        for action in each["Action"]
    }

    assert {"s3:DeleteObjectVersion", "s3:ListBucketVersions"} <= actions


def test_component_gets_only_the_table_privileges_its_statements_need() -> None:
    by_name = {each.name: collect_privileges(each) for each in SYSTEM.components}

    assert by_name == {
        "desk": {"surgery.visits": {"SELECT", "INSERT"}},
        "doctor": {"surgery.prescriptions": {"SELECT"}, "surgery.visits": {"SELECT", "UPDATE"}},
        "archive": {"surgery.visits": {"SELECT", "DELETE"}},
    }
