"""The production parser: Bedrock Data Automation, which parses a document in S3 with text recognition (OCR).

Written against the published shapes of InvokeDataAutomationAsync, GetDataAutomationStatus and the standard
output, and tested on recordings of those shapes. Not verified against the service.

The host implements `DataAutomationClient` with its own SDK. The results become the same entities as those of
the local parsers: headings open sections; running headers and page numbers are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from tripcortex.documents.ports import PARAGRAPH, SECTION_TITLE, TITLE, Box, ContentType, ParsedEntity
from tripcortex.documents.sections import Sections

_RUNNING: Final = ("Created", "InProgress")
_SKIPPED: Final = ("HEADER", "FOOTER", "PAGE_NUMBER")
_CONTENT_TYPES: Final = {"TEXT": ContentType.text, "TABLE": ContentType.table, "FIGURE": ContentType.figure}
_MARKDOWN_HEADING: Final = re.compile(r"^(#{1,6})\s")


class DataAutomationClient(Protocol):
    """The calls to AWS that the parser needs."""

    async def invoke_data_automation_async(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Start a job. Return `{"invocationArn": …}`."""
        ...

    async def get_data_automation_status(self, invocation_arn: str) -> Mapping[str, Any]:
        """Return `{"status": …, "outputConfiguration": {"s3Uri": …}}`."""
        ...

    async def read_object(self, s3_uri: str) -> bytes:
        """Return the bytes of an object."""
        ...


class DataAutomation:
    """A `RemoteParser`. The service writes results under `output_uri`.

    Crops of figures stay there, and entities hold their URIs.
    """

    def __init__(
        self,
        client: DataAutomationClient,
        *,
        project_arn: str,
        profile_arn: str,
        output_uri: str,
        stage: str = "LIVE",
    ) -> None:
        self._client = client
        self._project_arn, self._profile_arn = project_arn, profile_arn
        self._output_uri, self._stage = output_uri, stage

    async def start(self, source_uri: str, token: str) -> str:
        """Start a job and return its ARN. The same token never starts a second job."""
        answer = await self._client.invoke_data_automation_async(
            {
                "clientToken": token,
                "inputConfiguration": {"s3Uri": source_uri},
                "outputConfiguration": {"s3Uri": self._output_uri},
                "dataAutomationConfiguration": {
                    "dataAutomationProjectArn": self._project_arn,
                    "stage": self._stage,
                },
                "dataAutomationProfileArn": self._profile_arn,
            }
        )
        return str(answer["invocationArn"])

    async def get_result(self, invocation: str) -> tuple[ParsedEntity, ...] | None:
        """Return the entities of a finished job, or None while it runs. `invocation` is the job's ARN.

        Raise `ExternalServiceRefused` for a document that the service refuses, `ExternalServiceFailed` if the
        job failed.
        """
        answer = await self._client.get_data_automation_status(invocation)
        status = answer.get("status")
        if status in _RUNNING:
            return None
        if status == "Success":
            return await self._load_results(answer["outputConfiguration"]["s3Uri"])
        why = f"{answer.get('errorType', status)}: {answer.get('errorMessage', 'no reason given')}"
        if status == "ClientError":
            raise ExternalServiceRefused(
                "ClientError",
                f"Bedrock Data Automation refused the document ({why}). Upload a document that it supports.",
            )
        raise ExternalServiceFailed(f"The job of Bedrock Data Automation failed ({why}).", may_be_done=False)

    async def _load_results(self, metadata_uri: str) -> tuple[ParsedEntity, ...]:
        """Load the entities of a finished job; `metadata_uri` is its metadata file or the folder with it.

        The service splits a long file into segments with one result each; the metadata lists them.
        """
        metadata = json.loads(await self._client.read_object(_build_metadata_uri(metadata_uri)))
        outputs = [
            json.loads(await self._client.read_object(segment["standard_output_path"]))
            for asset in metadata["output_metadata"]
            for segment in asset["segment_metadata"]
        ]
        return tuple(parse_outputs(outputs))


def _build_metadata_uri(uri: str) -> str:
    """Return the URI of the job's metadata, given that or its folder."""
    return uri if uri.endswith(".json") else f"{uri.rstrip('/')}/job_metadata.json"


def parse_outputs(outputs: list[dict[str, Any]]) -> Iterator[ParsedEntity]:
    """Yield the entities of a document from the standard outputs of its segments, in order."""
    sections = Sections()
    count = 0
    for output in outputs:
        for element in sorted(
            output.get("elements", ()), key=lambda element: element.get("reading_order", 0)
        ):
            if element.get("type") not in _CONTENT_TYPES or element.get("sub_type") in _SKIPPED:
                continue
            if element.get("sub_type") in (TITLE, SECTION_TITLE):
                sections.enter(_get_representation(element, "text"), _get_rank(element))
            count += 1
            yield _build_entity(element, count, sections)


def _build_entity(element: Mapping[str, Any], order: int, sections: Sections) -> ParsedEntity:
    """Return the element as an entity; `order` is its number in the document."""
    kind = _CONTENT_TYPES[element["type"]]
    boxes = tuple(_parse_boxes(element))
    return ParsedEntity(
        kind,
        _get_text(element, kind),
        boxes[0].page if boxes else _get_first_page(element),
        sections.nearest,
        order,
        str(element["id"]),
        _get_subtype(element, kind),
        boxes,
        sections.titles,
        crop_uris=tuple(element.get("crop_images") or ()),
    )


def _get_subtype(element: Mapping[str, Any], kind: ContentType) -> str:
    """Return the service's subtype; by default PARAGRAPH for text and FIGURE for a figure."""
    if kind is ContentType.table:
        return "TABLE"
    return str(element.get("sub_type") or (PARAGRAPH if kind is ContentType.text else "FIGURE"))


def _get_text(element: Mapping[str, Any], kind: ContentType) -> str:
    """Return a table with its title as Markdown, a figure's title, summary and text, or an element's text."""
    if kind is ContentType.table:
        return "\n\n".join(
            part for part in (element.get("title"), _get_representation(element, "markdown")) if part
        )
    if kind is ContentType.figure:
        texts = (element.get("title"), element.get("summary"), _get_representation(element, "text"))
        return "\n".join(part for part in texts if part)
    return _get_representation(element, "markdown" if element.get("sub_type") == "LIST" else "text")


def _get_representation(element: Mapping[str, Any], wanted: str) -> str:
    """Return the text in the wanted format, or in the next best one that the project is configured for."""
    formats = element.get("representation") or {}
    return next((formats[name] for name in (wanted, "markdown", "text", "html") if formats.get(name)), "")


def _get_rank(element: Mapping[str, Any]) -> float:
    """Return the heading's level, 1 for the highest: by its Markdown form, else by its subtype."""
    heading = _MARKDOWN_HEADING.match(_get_representation(element, "markdown"))
    if heading:
        return len(heading[1])
    return 1 if element.get("sub_type") == TITLE else 2


def _parse_boxes(element: Mapping[str, Any]) -> Iterator[Box]:
    """Yield the boxes. The service counts pages from 0; like `Box`, it measures in fractions of the page."""
    for location in element.get("locations") or ():
        box = location.get("bounding_box")
        if box:
            yield Box(location["page_index"] + 1, box["left"], box["top"], box["width"], box["height"])


def _get_first_page(element: Mapping[str, Any]) -> int | None:
    """Return the first page, counted from 1, or None."""
    pages = element.get("page_indices") or ()
    return pages[0] + 1 if pages else None
