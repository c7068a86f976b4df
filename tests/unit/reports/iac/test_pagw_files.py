"""Derived files of PAGW: one Terraform file per service, buckets by region, keys by environment, grants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.reports.iac.cloudformation import build_template
from holdfast.reports.iac.terraform import render_module
from holdfast.reports.iam.sql_grants import collect_privileges
from pagw.model.entities import audit_events_bucket, requests_bucket
from pagw.model.environments import ENVIRONMENTS
from pagw.system import SYSTEM
from tests.unit.reports.iac.validators import get_resources

GATEWAY = replace(
    SYSTEM,
    deployment=replace(
        SYSTEM.deployment, environments={each.name: each.region for each in ENVIRONMENTS.values()}
    ),
)


@pytest.mark.proves("PG-50")
@pytest.mark.proves("PG-X19")
def test_module_has_the_files_of_the_document_and_one_for_the_cache() -> None:
    named = {"dynamodb.tf", "aurora.tf", "s3.tf", "kms.tf", "sqs.tf"}

    assert named | {"elasticache.tf"} <= render_module(GATEWAY).keys()


@pytest.mark.proves("PG-29")
@pytest.mark.proves("PG-X17")
def test_each_environment_has_the_buckets_of_its_region() -> None:
    names = build_template(GATEWAY)["Mappings"]["BucketNames"]

    assert names["dev"] == {
        "PagwRequestsBucket": "crln-pagw-dev-dataz-gbd-phi-useast2",
        "PagwAuditBucket": "crln-pagw-dev-logz-nogbd-nophi-useast2",
    }
    assert names["prod"] == {
        "PagwRequestsBucket": "crln-pagw-prod-dataz-gbd-phi-useast1",
        "PagwAuditBucket": "crln-pagw-prod-logz-nogbd-nophi-useast1",
    }


@pytest.mark.proves("PG-32")
@pytest.mark.proves("PG-35")
@pytest.mark.proves("PG-36")
def test_requests_use_the_environments_key_and_audit_events_the_services_key() -> None:
    encryptions = get_resources(
        render_module(GATEWAY)["s3.tf"], "aws_s3_bucket_server_side_encryption_configuration"
    )
    [of_requests] = encryptions["pagw_requests"]["rule"]
    [of_audit] = encryptions["pagw_audit"]["rule"]

    assert requests_bucket.definition("sit").kms_key == "alias/pagw-s3-sit"
    assert of_requests["bucket_key_enabled"] is True
    assert of_requests["apply_server_side_encryption_by_default"] == [
        {"sse_algorithm": "aws:kms", "kms_master_key_id": "${aws_kms_key.pagw_s3.arn}"}
    ]
    assert of_audit["apply_server_side_encryption_by_default"] == [{"sse_algorithm": "AES256"}]
    for bucket in (requests_bucket, audit_events_bucket):
        definition = bucket.definition("sit")
        assert definition.versions
        assert [rule.prefix for rule in definition.lifecycle] == [""]


@pytest.mark.proves("PG-19")
def test_only_operator_and_sweeper_may_update_or_delete_audit_rows() -> None:
    tending = [each for each in SYSTEM.components if SYSTEM.get_pattern("remove_audit") in each.patterns]
    others = [
        collect_privileges(each).get("pagw.audit_log") for each in SYSTEM.components if each not in tending
    ]

    assert [each.name for each in tending] == ["operator", "sweeper"]
    assert frozenset({"SELECT", "INSERT"}) in others
    assert all(privileges is None or privileges <= {"SELECT", "INSERT"} for privileges in others)
