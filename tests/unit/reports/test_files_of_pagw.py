"""What is derived of the gateway: files by service, buckets by region, keys by environment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pagw import SYSTEM
from pagw.environments import ENVIRONMENTS
from pagw.model import audit_events_bucket, requests_bucket

from holdfast.reports.cloudformation import template_of
from holdfast.reports.sql_grants import tables_for
from holdfast.reports.terraform import terraform
from tests.unit.reports.test_terraform import resources

GATEWAY = replace(SYSTEM, environments={each.name: each.region for each in ENVIRONMENTS.values()})


@pytest.mark.proves("PG-50")
@pytest.mark.proves("PG-X19")
def test_the_module_has_the_files_that_the_document_names_and_the_cache_that_it_lacks() -> None:
    named = {"dynamodb.tf", "aurora.tf", "s3.tf", "kms.tf", "sqs.tf"}

    assert named | {"elasticache.tf"} <= terraform(GATEWAY).keys()


@pytest.mark.proves("PG-29")
@pytest.mark.proves("PG-X17")
def test_each_environment_has_the_buckets_of_its_region() -> None:
    names = template_of(GATEWAY)["Mappings"]["BucketNames"]

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
def test_requests_are_under_the_key_of_the_environment_and_audit_events_under_the_services_own() -> None:
    encryptions = resources(terraform(GATEWAY)["s3.tf"], "aws_s3_bucket_server_side_encryption_configuration")
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
def test_no_component_may_change_or_remove_a_row_of_the_audit_log() -> None:
    needs = {each.name: tables_for(each).get("pagw.audit_log", frozenset()) for each in SYSTEM.components}

    assert any("INSERT" in privileges for privileges in needs.values())
    assert {name for name, privileges in needs.items() if privileges & {"UPDATE", "DELETE"}} == set()
