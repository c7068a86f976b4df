"""Retrieval with the local model on PostgreSQL: passages, confidence, citations, calibration."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast_demo.tripcortex import story
from holdfast_demo.tripcortex.sample.policy_document import FILE_NAME, build_policy_pdf
from tests.systems.tripcortex.contract.policies.handbook_questions import QUESTIONS, HandbookQuestion
from tests.systems.tripcortex.contract.policies.held_out_questions import HELD_OUT
from tests.systems.tripcortex.contract.policies.knowledge_base import (
    AXES,
    Base,
    FakeParser,
    make_paragraph,
    open_base,
)
from tripcortex.policies.calibration import Calibration, calibrate, find_hits, format_table, ingest_folder
from tripcortex.policies.embedding import BOUNDS, LOCAL, build_local_embedding
from tripcortex.policies.ingestion import Upload
from tripcortex.policies.retrieval import RetrievalMode, RetrievalResult, retrieve

ROOT = Path(__file__).parents[5]
HANDBOOK = (
    Path(os.environ.get("HOLDFAST_REAL_DATA", ROOT.parent / "shared" / "data"))
    / "tripcortex"
    / "18f-travel-handbook"
)

POLICY = """# Travel policy of Example Corp

## Cabin of a flight

Flights below six hours are booked in economy. Business class is open to intercontinental flights above six hours with the approval
of a vice president.

## Booking in advance

Tickets are bought at least fourteen days before departure; later ones need a reason.

## Lodging

A room may cost up to 220 USD a night, and 300 USD in New York, London and Tokyo. Breakfast is included where that is offered.

## Ground transportation

Public transit comes first. Taxis and ride-share are paid where luggage, safety or time ask for it.

## Rental vehicles

| class | when |
| --- | --- |
| compact | one or two travellers |
| van | four travellers or more |

## Meals

The per diem is 75 USD; on the first and the last day three quarters of it.

## Travel with family

Spouses and children travel at the employee's own expense, and are booked separately.

## Reports

Expense reports are handed in within ten days after the return, with receipts for all that cost more than 25 USD.

## Illness and emergencies

Who falls ill abroad calls the assistance line, at any hour; its number is on the back of the insurance card.

## Preferred airlines

United and Delta are preferred where they are not more than 15 percent dearer than the lowest fare.
"""  # noqa: E501
POLICY_QUESTIONS = {
    "Book me a business class seat to Tokyo": "Cabin of a flight",
    "how early must I buy my plane ticket?": "Booking in advance",
    "what may a hotel cost in London?": "Lodging",
    "can I take an Uber from the airport?": "Ground transportation",
    "may I rent a van?": "Rental vehicles",
    "how much money do I get for food?": "Meals",
    "can my wife come along?": "Travel with family",
    "by when do I have to hand in my expenses?": "Reports",
    "I became sick in another country, whom do I call?": "Illness and emergencies",
    "Which carriers should I choose?": "Preferred airlines",
}


@pytest.fixture(scope="module")
def policy_base(base: Base) -> Base:
    """Ingest the example policy with the local model, once for the module."""
    policy = base.add_policy(Upload("example.md", POLICY.encode()), None, build_local_embedding())
    assert policy.status == "ready", policy.error_message
    return base


@pytest.mark.proves("TC-90")
def test_the_right_section_of_a_policy_is_among_the_first_three(policy_base: Base) -> None:
    missed = []
    for question, section in POLICY_QUESTIONS.items():
        found = policy_base.run(retrieve(policy_base.stores, build_local_embedding(), question, top_k=3))
        if section not in [each.section_title for each in found.chunks]:
            missed.append((question, [each.section_title for each in found.chunks]))
    assert missed == []


@pytest.mark.proves("TC-44")
def test_question_not_about_travel_finds_nothing(policy_base: Base) -> None:
    for question in ("What is the boiling point of ethanol?", "How do I prune apple trees?", "?!"):
        found = policy_base.run(retrieve(policy_base.stores, build_local_embedding(), question))
        assert (found.chunks, found.max_similarity, found.confidence) == ((), 0.0, "none"), question


@pytest.mark.proves("TC-98")
def test_citation_has_policy_section_similarity_and_quote(policy_base: Base) -> None:
    found = policy_base.run(
        retrieve(policy_base.stores, build_local_embedding(), "what may a hotel room cost a night?")
    )
    assert found.embedding_dim == 1024 and found.model_id == LOCAL and found.confidence in ("low", "high")
    best = next(each for each in found.chunks if each.section_title == "Lodging")
    assert found.max_similarity == max(each.similarity for each in found.chunks) >= BOUNDS[LOCAL].threshold
    citation = best.citation()
    assert (citation.file_name, citation.section_title, citation.chunk_id) == (
        "example.md",
        "Lodging",
        best.chunk_id,
    )
    assert citation.similarity == round(best.similarity, 4)
    assert citation.quote is not None and citation.quote.startswith("A room may cost up to 220 USD")


def test_similarity_is_the_vectors_in_both_modes_and_headings_are_skipped(policy_base: Base) -> None:
    question = "how much money do I get for food?"
    plain = policy_base.run(
        retrieve(
            policy_base.stores, build_local_embedding(), question, mode="plain", top_k=50, threshold=-1.0
        )
    )
    fused = policy_base.run(retrieve(policy_base.stores, build_local_embedding(), question))
    by_id = {each.chunk_id: each.similarity for each in plain.chunks}
    assert fused.chunks and all(each.similarity == by_id[each.chunk_id] for each in fused.chunks)
    assert [each.similarity for each in plain.chunks] == sorted(by_id.values(), reverse=True)
    assert not {"TITLE", "SECTION_TITLE"} & {each.bda_entity_subtype for each in fused.chunks}


LISTED = """# Where we do not go

## Closed list

Until further notice the security team keeps the following places closed for every journey on business: Aden, Bamako, Caracas, Donetsk,
Goma, Juba, Khartoum, Minsk, Mogadishu, Moscow, Port-au-Prince, Sanaa and Tripoli. Who has a contract there asks the security team, which
looks at insurance, evacuation and the ways out before anything else is said.
"""  # noqa: E501


def test_finds_an_unknown_name_by_full_text_but_not_by_vectors_alone(policy_base: Base) -> None:
    """The passage is long and the name a part of it, so the vectors are far apart."""
    policy = policy_base.add_policy(Upload("closed.md", LISTED.encode()), None, build_local_embedding())

    def search(question: str, way: RetrievalMode = "fused") -> RetrievalResult:
        return policy_base.run(
            retrieve(policy_base.stores, build_local_embedding(), question, mode=way, policy_ids=[policy.id])
        )

    found, plain = search("Goma"), search("Goma", "plain")
    [passage] = found.chunks
    assert passage.section_title == "Closed list" and passage.similarity < BOUNDS[LOCAL].threshold
    assert (found.max_similarity, found.confidence) == (passage.similarity, "low")
    assert "Closed list" not in [each.section_title for each in plain.chunks]
    # One matching word of several is not enough.
    assert search("Who painted the churches of Goma?").chunks == ()
    policy_base.rows("DELETE FROM tripcortex.policies WHERE id = %s", policy.id)


# Questions written before any was tried, with the answering sections of the demo's policy.
SAMPLE_QUESTIONS = {
    "May I fly business class on a short flight?": ("3 Cabin by flight duration",),
    "May I fly first class?": ("3 Cabin by flight duration", "6 Soft and hard stops"),
    "What is the hotel cap in Warsaw?": ("9 Hotels",),
    "Is the minibar paid back?": ("13.1 What is not paid back",),
    "How much is paid for an overweight bag?": ("8 Baggage and seats",),
    "What may a domestic flight cost when I book three weeks ahead?": ("4 Fare caps",),
    "Are airline lounges paid for?": ("13.1 What is not paid back",),
    "How many of us may sit on the same plane?": ("14 Safety and duty of care",),
    "What does the company pay per mile for my own car?": ("11 Trains, cars and taxis",),
    "Who approves my trip when I am a manager myself?": ("7 Approvals and deadlines",),
}


def test_sample_policy_answers_nine_of_ten_new_questions_in_the_top_three(policy_base: Base) -> None:
    policy = policy_base.add_policy(Upload(FILE_NAME, build_policy_pdf()), None, build_local_embedding())
    firsts, among = [], []
    for question, sections in SAMPLE_QUESTIONS.items():
        found = policy_base.run(
            retrieve(policy_base.stores, build_local_embedding(), question, top_k=3, policy_ids=[policy.id])
        )
        titles = [each.section_title for each in found.chunks]
        firsts += [question] if titles[0] in sections else []
        among += [question] if set(titles) & set(sections) else []
    assert len(among) >= 9 and len(firsts) >= 6, (among, firsts)
    assert story.QUESTION in among
    policy_base.rows("DELETE FROM tripcortex.policies WHERE id = %s", policy.id)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
@example("'; DROP TABLE tripcortex.policies; --")
@example("hotel\x00 \ud800 \\ C:\\rooms\\o'hare 'quoted' a:*b & !c | (d) %s %(x)s {columns}")
def test_any_text_is_a_valid_question(policy_base: Base, question: str) -> None:
    found = policy_base.run(retrieve(policy_base.stores, build_local_embedding(), question, threshold=-1.0))
    assert len(found.chunks) <= 5


def test_drops_characters_that_postgresql_cannot_store(policy_base: Base) -> None:
    odd = FakeParser(
        [make_paragraph("Hotel\x00 rooms \ud800 cost", 1, "Rates\x00 of\udc00 rooms", sections=("All\x00",))]
    )
    policy = policy_base.add_policy(Upload("odd.md", b"x"), odd, AXES)
    assert policy.status == "ready", policy.error_message
    [kept] = policy_base.rows(
        "SELECT content_text, section_title FROM tripcortex.policy_chunks WHERE policy_id = %s", policy.id
    )
    assert kept == ("Hotel  rooms ? cost", "Rates  of? rooms")
    policy_base.rows("DELETE FROM tripcortex.policies WHERE id = %s", policy.id)


def test_ignores_vectors_of_another_model(policy_base: Base) -> None:
    other = policy_base.add_policy(
        Upload("axes.md", b"x"), FakeParser([make_paragraph("Hotel hotel hotel", 1)]), AXES
    )
    found = policy_base.run(retrieve(policy_base.stores, AXES, "hotel"))
    assert [each.policy_id for each in found.chunks] == [str(other.id)]
    assert found.max_similarity == pytest.approx(1) and found.confidence == "high"
    local = policy_base.run(retrieve(policy_base.stores, build_local_embedding(), "hotel"))
    assert str(other.id) not in {each.policy_id for each in local.chunks}


# --- the public handbook ------------------------------------------------------------------------------------

needs_handbook = pytest.mark.skipif(
    not HANDBOOK.is_dir(),
    reason="needs real data: set HOLDFAST_REAL_DATA to a folder with tripcortex/18f-travel-handbook",
)


@pytest.fixture(scope="module")
def handbook() -> Iterator[Base]:
    """Ingest the public handbook into its own database, once for the module."""
    with open_base() as base:
        documents = (each for each in HANDBOOK.glob("*.md") if each.name != "LICENSE.md")
        assert base.run(ingest_folder(base.stores, build_local_embedding(), documents)) > 200
        yield base


def map_sections(asked: tuple[HandbookQuestion, ...]) -> dict[str, tuple[tuple[str, str], ...]]:
    return {each.question: each.sections for each in asked}


@needs_handbook
@pytest.mark.parametrize("asked", [QUESTIONS, HELD_OUT], ids=["questions", "held out"])
def test_the_right_section_of_the_handbook_is_in_the_top_five_for_85_percent(
    handbook: Base, asked: tuple[HandbookQuestion, ...]
) -> None:
    found = handbook.run(find_hits(handbook.stores, build_local_embedding(), map_sections(asked)))
    missed = sorted(set(map_sections(asked)) - set(found))
    assert len(found) >= 0.85 * len(asked), missed


@needs_handbook
def test_documented_calibration_matches_the_measurement(handbook: Base) -> None:
    assert len(QUESTIONS) >= 44
    measured = handbook.run(
        calibrate(handbook.stores, build_local_embedding(), map_sections((*QUESTIONS, *HELD_OUT)))
    )
    text = (ROOT / "docs" / "systems" / "tripcortex" / "retrieval.md").read_text()
    documented = parse_numbers(text[text.index("| similarity of") :].split("\n\n")[0])
    assert documented.keys() == parse_numbers(format_table(measured)).keys()
    for name, values in parse_numbers(format_table(measured)).items():
        # Nearly equal to the second digit: tokens and vectors are the same everywhere, float sums not quite.
        assert values == pytest.approx(documented[name], abs=0.03), name
    bounds = BOUNDS[LOCAL]
    assert get_share(measured.right, bounds.threshold) >= 0.95
    assert get_share(measured.unrelated, bounds.threshold) <= 0.25
    assert get_share(measured.unrelated, bounds.high) <= 0.05


def get_share(values: tuple[float, ...], above: float) -> float:
    """Return the share of the values that are at least `above`."""
    return sum(each >= above for each in values) / len(values)


def parse_numbers(shown: str) -> dict[str, list[float]]:
    """Return the numbers of each row of a Markdown table by its first cell."""
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in shown.splitlines()[2:]]
    return {name: [float(each) for each in values] for name, *values in rows}


@needs_handbook
def test_the_calibration_can_be_repeated_from_the_command_line(tmp_path: Path) -> None:
    questions = tmp_path / "questions.csv"
    with questions.open("w", newline="") as lines:
        csv.writer(lines).writerows(
            (each.question, *section) for each in QUESTIONS[:4] for section in each.sections
        )
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("travel-guide-faq.md", "travel-guide-3-travel.md"):
        (documents / name).write_bytes((HANDBOOK / name).read_bytes())
    output = subprocess.run(
        [sys.executable, "-m", "tripcortex.policies.calibration", str(documents), str(questions)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        cwd=ROOT,
    ).stdout
    assert "| similarity of | 0% |" in output and re.search(r"fused \d of 4", output)


def test_quantiles_are_interpolated_between_values() -> None:
    rows = dict(Calibration((0.0, 1.0), (0.5,), (0.2, 0.4, 0.6)).compute_rows())
    assert rows["a right passage"] == [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
    assert rows["the nearest, of a travel question"] == [0.5] * 7
    assert rows["the nearest, of another question"][3] == 0.4
