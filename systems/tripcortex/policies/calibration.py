"""Command that calibrates an embedding model: measures from which similarity on a passage is relevant.

    python -m tripcortex.policies.calibration FOLDER QUESTIONS.csv

FOLDER contains policy documents. QUESTIONS.csv has lines of `question,file,heading`: a section that answers
the question, by its file and the start of its heading; several lines may have the same question. Questions
that no travel policy answers are asked in addition. The output is the table of
docs/systems/tripcortex/retrieval.md, and how often the right section is among the first five.
"""

from __future__ import annotations

import asyncio
import csv
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast import Stores
from tripcortex.model.policies.schema import TOP_K
from tripcortex.policies.embedding import Embedding, build_local_embedding
from tripcortex.policies.file_search import ingest_file, open_policy_stores
from tripcortex.policies.retrieval import RetrievalMode, RetrievedChunk, retrieve

QUANTILES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
NO_THRESHOLD: Final = -1.0

# The sections that answer a question, each as its file and the start of its heading.
Sections = Sequence[tuple[str, str]]

UNRELATED_QUESTIONS: Final = (
    "What is the capital of Mongolia?",
    "How do I bake sourdough bread?",
    "Who won the chess championship last year?",
    "Explain how photosynthesis works",
    "Write a poem about the sea",
    "How do I fix a memory leak in C++?",
    "Which vitamins are in spinach?",
    "My cat does not eat any more",
    "What is the offside rule in soccer?",
    "How tall is Mount Kilimanjaro?",
    "Recommend a science fiction novel",
    "How do vaccines train the immune system?",
    "Convert ten inches to centimetres",
    "What does the stock market do in a recession?",
    "How do I prune apple trees?",
    "Tell me a joke about dentists",
    "Who painted the Mona Lisa?",
    "How does a nuclear reactor cool itself?",
    "What is the boiling point of ethanol?",
    "Translate good morning into Japanese",
)


@dataclass(frozen=True)
class Calibration:
    """Measured similarities.

    `right`: the best right passage in the first five. `related` and `unrelated`: the nearest passage to
    travel questions and to others.
    """

    right: tuple[float, ...]
    related: tuple[float, ...]
    unrelated: tuple[float, ...]

    def compute_rows(self) -> list[tuple[str, list[float]]]:
        """Return the name and the quantiles of each measurement."""
        named = (
            ("a right passage", self.right),
            ("the nearest, of a travel question", self.related),
            ("the nearest, of another question", self.unrelated),
        )
        return [(name, [_compute_quantile(values, each) for each in QUANTILES]) for name, values in named]


async def calibrate(stores: Stores, embedding: Embedding, questions: Mapping[str, Sections]) -> Calibration:
    """Measure the similarities of `questions`, given with the sections that answer them.

    Unrelated questions are measured too.
    """
    right: list[float] = []
    related: list[float] = []
    for question, sections in questions.items():
        found = await retrieve(stores, embedding, question, threshold=NO_THRESHOLD)
        right += (
            [max(fits)]
            if (fits := [each.similarity for each in found.chunks if is_answer(each, sections)])
            else []
        )
        related.append(await _get_nearest_similarity(stores, embedding, question))
    unrelated = [await _get_nearest_similarity(stores, embedding, each) for each in UNRELATED_QUESTIONS]
    return Calibration(tuple(right), tuple(related), tuple(unrelated))


async def find_hits(
    stores: Stores,
    embedding: Embedding,
    questions: Mapping[str, Sections],
    *,
    mode: RetrievalMode = "fused",
    top_k: int = TOP_K,
) -> list[str]:
    """Return the questions whose right section is in the result, with the model's own threshold."""
    found: list[str] = []
    for question, sections in questions.items():
        retrieved = await retrieve(stores, embedding, question, mode=mode, top_k=top_k)
        if any(is_answer(each, sections) for each in retrieved.chunks):
            found.append(question)
    return found


def is_answer(chunk: RetrievedChunk, sections: Sections) -> bool:
    """Return True if the chunk belongs to one of the sections."""
    title = _normalize(chunk.section_title or "")
    return any(
        chunk.file_name == file and title.startswith(_normalize(heading)) for file, heading in sections
    )


async def ingest_folder(stores: Stores, embedding: Embedding, files: Iterable[Path]) -> int:
    """Upload and ingest the files, and return their number of chunks. Raise `InvalidRequest` if one fails."""
    chunks = 0
    for file in sorted(files):
        policy = await ingest_file(stores, embedding, file.name, file.read_bytes())
        chunks += policy.total_chunks or 0
    return chunks


async def _get_nearest_similarity(stores: Stores, embedding: Embedding, question: str) -> float:
    """Return the similarity of the passage nearest to the question, without a threshold."""
    found = await retrieve(stores, embedding, question, threshold=NO_THRESHOLD, mode="plain", top_k=1)
    return found.max_similarity


def _compute_quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile, interpolated between the two nearest values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _normalize(text: str) -> str:
    """Return the words and numbers in lower case, separated by single spaces."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def format_table(calibration: Calibration) -> str:
    """Return the measurements as a Markdown table."""
    heads = ["similarity of", *(f"{share:.0%}" for share in QUANTILES)]
    lines = [heads, ["---"] * len(heads)]
    lines += [[name, *(f"{value:.2f}" for value in values)] for name, values in calibration.compute_rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def _main(folder: Path, questions: Path) -> str:
    """Ingest the folder into stores in memory, calibrate the local model, and return the report."""
    asked: dict[str, list[tuple[str, str]]] = {}
    with questions.open(newline="", encoding="utf-8") as lines:
        for question, file, heading in csv.reader(lines):
            asked.setdefault(question, []).append((file, heading))
    embedding = build_local_embedding()
    async with open_policy_stores() as stores:
        chunks = await ingest_folder(stores, embedding, (each for each in folder.iterdir() if each.is_file()))
        results = format_table(await calibrate(stores, embedding, asked))
        counts = {way: len(await find_hits(stores, embedding, asked, mode=way)) for way in ("plain", "fused")}
    found = ", ".join(f"{way} {count} of {len(asked)}" for way, count in counts.items())
    return (
        f"{chunks} chunks, {embedding.model_id}\n\n{results}\n\nThe right section among the first {TOP_K}: "
        f"{found}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(_main(Path(sys.argv[1]), Path(sys.argv[2]))))
