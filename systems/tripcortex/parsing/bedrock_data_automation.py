"""Bedrock Data Automation: takes a document in S3 apart by itself, with text recognition; the parser of production.

Written against the published shapes of InvokeDataAutomationAsync, GetDataAutomationStatus and of the standard output, and
tested on recordings made after them. It has not been proved against the service.

The service is asked through `DataAutomationClient`, which a host makes from whichever SDK it has. What it gives is read as
the same entities that the local parsers give: headings open sections, running headers and page numbers are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from holdfast.errors import PartyFailed, PartyRefused

from .ports import PARAGRAPH, SECTION_TITLE, TITLE, Box, ContentType, ParsedEntity
from .sections import Sections

_RUNNING: Final = ("Created", "InProgress")
_LEFT_OUT: Final = ("HEADER", "FOOTER", "PAGE_NUMBER")
_KINDS: Final = {"TEXT": ContentType.text, "TABLE": ContentType.table, "FIGURE": ContentType.figure}
_MARKDOWN_HEADING: Final = re.compile(r"^(#{1,6})\s")


class DataAutomationClient(Protocol):
    async def invoke_data_automation_async(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """`{"invocationArn": …}`."""
        ...

    async def get_data_automation_status(self, invocation_arn: str) -> Mapping[str, Any]:
        """`{"status": …, "outputConfiguration": {"s3Uri": …}}`."""
        ...

    async def read_object(self, s3_uri: str) -> bytes: ...


class DataAutomation:
    """A `RemoteParser`. Results are put under `output_uri`; crops of figures stay there, and entities say where."""

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

    async def begin(self, source_uri: str, token: str) -> str:
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

    async def outcome(self, invocation: str) -> tuple[ParsedEntity, ...] | None:
        answer = await self._client.get_data_automation_status(invocation)
        status = answer.get("status")
        if status in _RUNNING:
            return None
        if status == "Success":
            return await self._results(answer["outputConfiguration"]["s3Uri"])
        why = f"{answer.get('errorType', status)}: {answer.get('errorMessage', 'no reason given')}"
        if status == "ClientError":
            raise PartyRefused(
                "ClientError",
                f"Bedrock Data Automation cannot read the document ({why}). Upload one that it supports.",
            )
        raise PartyFailed(f"Bedrock Data Automation did not finish ({why}).", may_be_done=False)

    async def _results(self, metadata_uri: str) -> tuple[ParsedEntity, ...]:
        """A long file is cut into segments, each with a result; the job's metadata lists them."""
        metadata = json.loads(await self._client.read_object(_job_metadata(metadata_uri)))
        outputs = [
            json.loads(await self._client.read_object(segment["standard_output_path"]))
            for asset in metadata["output_metadata"]
            for segment in asset["segment_metadata"]
        ]
        return tuple(entities_of(outputs))


def _job_metadata(uri: str) -> str:
    return uri if uri.endswith(".json") else f"{uri.rstrip('/')}/job_metadata.json"


def entities_of(outputs: list[dict[str, Any]]) -> Iterator[ParsedEntity]:
    """From the standard outputs of a document, segment after segment."""
    sections = Sections()
    count = 0
    for output in outputs:
        for element in sorted(
            output.get("elements", ()), key=lambda element: element.get("reading_order", 0)
        ):
            if element.get("type") not in _KINDS or element.get("sub_type") in _LEFT_OUT:
                continue
            if element.get("sub_type") in (TITLE, SECTION_TITLE):
                sections.enter(_representation(element, "text"), _rank(element))
            count += 1
            yield _entity(element, count, sections)


def _entity(element: Mapping[str, Any], order: int, sections: Sections) -> ParsedEntity:
    kind = _KINDS[element["type"]]
    boxes = tuple(_boxes(element))
    return ParsedEntity(
        kind,
        _text(element, kind),
        boxes[0].page if boxes else _first_page(element),
        sections.nearest,
        order,
        str(element["id"]),
        _subtype(element, kind),
        boxes,
        sections.titles,
        crop_uris=tuple(element.get("crop_images") or ()),
    )


def _subtype(element: Mapping[str, Any], kind: ContentType) -> str:
    if kind is ContentType.table:
        return "TABLE"
    return str(element.get("sub_type") or (PARAGRAPH if kind is ContentType.text else "FIGURE"))


def _text(element: Mapping[str, Any], kind: ContentType) -> str:
    if kind is ContentType.table:
        return "\n\n".join(
            part for part in (element.get("title"), _representation(element, "markdown")) if part
        )
    if kind is ContentType.figure:
        said = (element.get("title"), element.get("summary"), _representation(element, "text"))
        return "\n".join(part for part in said if part)
    return _representation(element, "markdown" if element.get("sub_type") == "LIST" else "text")


def _representation(element: Mapping[str, Any], wanted: str) -> str:
    """A project gives the formats that it was told to; of those, the one that is wanted or the next best."""
    given = element.get("representation") or {}
    return next((given[form] for form in (wanted, "markdown", "text", "html") if given.get(form)), "")


def _rank(element: Mapping[str, Any]) -> float:
    marked = _MARKDOWN_HEADING.match(_representation(element, "markdown"))
    if marked:
        return len(marked[1])
    return 1 if element.get("sub_type") == TITLE else 2


def _boxes(element: Mapping[str, Any]) -> Iterator[Box]:
    """The service counts pages from 0 and measures in fractions of the page, as `Box` does."""
    for location in element.get("locations") or ():
        box = location.get("bounding_box")
        if box:
            yield Box(location["page_index"] + 1, box["left"], box["top"], box["width"], box["height"])


def _first_page(element: Mapping[str, Any]) -> int | None:
    pages = element.get("page_indices") or ()
    return pages[0] + 1 if pages else None
