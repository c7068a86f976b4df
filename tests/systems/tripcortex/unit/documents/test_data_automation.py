"""Tests of the Bedrock Data Automation parser on recorded response shapes; no test calls the service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from tests.cases import all_cases
from tripcortex.documents import Box, ContentType, RemoteParser
from tripcortex.integrations.bedrock_data_automation import DataAutomation

ARN = "arn:aws:bedrock:us-east-1:111122223333:data-automation-invocation/4f0c"
PROJECT = "arn:aws:bedrock:us-east-1:111122223333:data-automation-project/8ab1"
PROFILE = "arn:aws:bedrock:us-east-1:111122223333:data-automation-profile/us.data-automation-v1"
FOLDER = "s3://results/policies/4f0c/0"


def make_element(
    kind: str, sub_type: str | None, order: int, text: str, *pages: int, **more: Any
) -> dict[str, Any]:
    """Build an element of the standard output with a box on each page; pages count from 0."""
    box = {"left": 0.1, "top": 0.2, "width": 0.5, "height": 0.05}
    return {
        "id": f"element-{order}",
        "type": kind,
        **({"sub_type": sub_type} if sub_type else {}),
        "representation": {"text": text, "markdown": text},
        "reading_order": order,
        "page_indices": list(pages),
        "locations": [{"page_index": page, "bounding_box": box} for page in pages],
        **more,
    }


TABLE = {
    "text": "Route Cap",
    "markdown": "| Route | Cap |\n| --- | --- |\n| Domestic | 500 |",
    "html": "<table/>",
    "csv": "…",
}
OUTPUT = {
    "metadata": {
        "logical_subdocument_id": "1",
        "semantic_modality": "DOCUMENT",
        "s3_bucket": "b",
        "s3_key": "k",
    },
    "document": {"statistics": {"element_count": 7, "table_count": 1, "figure_count": 1}},
    "pages": [{"id": "page-1", "page_index": 0, "statistics": {"element_count": 7}}],
    "elements": [
        make_element("TEXT", "PAGE_NUMBER", 8, "1", 0),
        make_element("TEXT", "HEADER", 0, "Northwind", 0),
        make_element("TEXT", "PARAGRAPH", 3, "Flights are booked early.", 0),
        make_element("TEXT", "TITLE", 1, "Travel Policy", 0),
        make_element("TEXT", "SECTION_TITLE", 2, "Booking", 0),
        make_element(
            "TEXT", "LIST", 4, "one two", 0, representation={"text": "one two", "markdown": "- one\n- two"}
        ),
        make_element(
            "TABLE",
            None,
            5,
            "",
            0,
            1,
            title="Fare caps",
            representation=TABLE,
            crop_images=[f"{FOLDER}/assets/t.png"],
        ),
        make_element(
            "FIGURE",
            "CHART",
            6,
            "Q1 412",
            1,
            title="Spend",
            summary="Spend falls over the year.",
            crop_images=[f"{FOLDER}/assets/f.png"],
            rai_flag="APPROVED",
        ),
    ],
}
SECOND = {"elements": [make_element("TEXT", "PARAGRAPH", 1, "Still booking.", 2)]}
METADATA = {
    "job_id": "4f0c",
    "job_status": "PROCESSED",
    "semantic_modality": "DOCUMENT",
    "output_metadata": [
        {
            "asset_id": 0,
            "segment_metadata": [
                {"standard_output_path": f"{FOLDER}/standard_output/0/result.json"},
                {"standard_output_path": f"{FOLDER}/standard_output/1/result.json"},
            ],
        }
    ],
}


class FakeDataAutomation:
    """Fake client that returns recorded responses and keeps its requests."""

    def __init__(self, *statuses: Mapping[str, Any]) -> None:
        self.requests: list[Mapping[str, Any]] = []
        self._statuses = list(statuses)
        self._objects = {
            f"{FOLDER}/job_metadata.json": METADATA,
            f"{FOLDER}/standard_output/0/result.json": OUTPUT,
            f"{FOLDER}/standard_output/1/result.json": SECOND,
        }

    async def invoke_data_automation_async(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.requests.append(request)
        return {"invocationArn": ARN}

    async def get_data_automation_status(self, invocation_arn: str) -> Mapping[str, Any]:
        assert invocation_arn == ARN
        return self._statuses.pop(0)

    async def read_object(self, s3_uri: str) -> bytes:
        return json.dumps(self._objects[s3_uri]).encode()


def make_parser(client: FakeDataAutomation) -> RemoteParser:
    return DataAutomation(
        client, project_arn=PROJECT, profile_arn=PROFILE, output_uri="s3://results/policies"
    )


def make_success(uri: str = f"{FOLDER}/job_metadata.json") -> dict[str, Any]:
    return {"status": "Success", "outputConfiguration": {"s3Uri": uri}}


async def test_starts_with_the_file_the_project_and_an_idempotency_token() -> None:
    client = FakeDataAutomation()
    assert await make_parser(client).start("s3://policies/p1.pdf", "token-of-policy-p1") == ARN
    assert client.requests == [
        {
            "clientToken": "token-of-policy-p1",
            "inputConfiguration": {"s3Uri": "s3://policies/p1.pdf"},
            "outputConfiguration": {"s3Uri": "s3://results/policies"},
            "dataAutomationConfiguration": {"dataAutomationProjectArn": PROJECT, "stage": "LIVE"},
            "dataAutomationProfileArn": PROFILE,
        }
    ]


async def test_returns_nothing_while_the_job_runs() -> None:
    client = FakeDataAutomation({"status": "Created"}, {"status": "InProgress"})
    automation = make_parser(client)
    assert await automation.get_result(ARN) is None
    assert await automation.get_result(ARN) is None


@pytest.mark.proves("TC-30", "TC-31")
@all_cases("uri", [f"{FOLDER}/job_metadata.json", f"{FOLDER}/"])
async def test_returns_the_entities_of_all_segments_in_reading_order(uri: str) -> None:
    entities = await make_parser(FakeDataAutomation(make_success(uri))).get_result(ARN) or ()
    assert [
        (each.entity_id, each.subtype, each.page, each.section_title, each.text) for each in entities
    ] == [
        ("element-1", "TITLE", 1, "Travel Policy", "Travel Policy"),
        ("element-2", "SECTION_TITLE", 1, "Booking", "Booking"),
        ("element-3", "PARAGRAPH", 1, "Booking", "Flights are booked early."),
        ("element-4", "LIST", 1, "Booking", "- one\n- two"),
        ("element-5", "TABLE", 1, "Booking", f"Fare caps\n\n{TABLE['markdown']}"),
        ("element-6", "CHART", 2, "Booking", "Spend\nSpend falls over the year.\nQ1 412"),
        ("element-1", "PARAGRAPH", 3, "Booking", "Still booking."),
    ]
    assert [each.reading_order for each in entities] == list(range(1, 8))


@pytest.mark.proves("TC-33")
async def test_entities_have_boxes_and_crops() -> None:
    entities = await make_parser(FakeDataAutomation(make_success())).get_result(ARN) or ()
    table, figure = entities[4], entities[5]
    assert (table.content_type, figure.content_type) == (ContentType.table, ContentType.figure)
    assert table.boxes == (Box(1, 0.1, 0.2, 0.5, 0.05), Box(2, 0.1, 0.2, 0.5, 0.05))
    assert figure.to_metadata() == {
        "bounding_boxes": [{"page": 2, "left": 0.1, "top": 0.2, "width": 0.5, "height": 0.05}],
        "sections": ["Travel Policy", "Booking"],
        "crop_image_uris": [f"{FOLDER}/assets/f.png"],
    }


async def test_document_that_the_service_cannot_read_is_refused() -> None:
    status = {
        "status": "ClientError",
        "errorType": "ValidationException",
        "errorMessage": "The file is encrypted",
    }
    with pytest.raises(ExternalServiceRefused, match="The file is encrypted"):
        await make_parser(FakeDataAutomation(status)).get_result(ARN)


@all_cases("status", ["ServiceError", "SomethingNew"])
async def test_failure_of_the_service_is_retryable(status: str) -> None:
    with pytest.raises(ExternalServiceFailed) as failed:
        await make_parser(FakeDataAutomation({"status": status})).get_result(ARN)
    assert not failed.value.may_be_done
