"""From which similarity on a passage is about a question: measured, for a model, on questions whose right section is known.

    python -m tripcortex.knowledge.calibrating FOLDER QUESTIONS.csv

FOLDER has policy documents, QUESTIONS.csv lines of `question,file,heading`: a section that answers the question, by its file and the
beginning of its heading; several lines may have the same question. Questions that no travel policy answers are asked besides. What
comes out is the table of docs/retrieval.md, and how often the right section is among the first five.
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

from holdfast import Stores, System, prepare, stores_in_memory
from holdfast.errors import InvalidRequest
from tripcortex.knowledge.embedding import Embedding, local_embedding
from tripcortex.knowledge.ingesting import Upload, ingest, upload
from tripcortex.knowledge.retrieving import RetrievedChunk, Way, retrieve
from tripcortex.knowledge.schema import TOP_K, tripcortex
from tripcortex.model import policy_files

QUANTILES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
EVERYTHING: Final = -1.0

# Of files and the beginnings of headings: the sections that answer.
Sections = Sequence[tuple[str, str]]

UNRELATED: Final = (
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
    """Similarities: of the best right passage among the first five, and of the nearest passage to what is and is not about travel."""

    right: tuple[float, ...]
    related: tuple[float, ...]
    unrelated: tuple[float, ...]

    def rows(self) -> list[tuple[str, list[float]]]:
        named = (
            ("a right passage", self.right),
            ("the nearest, of a travel question", self.related),
            ("the nearest, of another question", self.unrelated),
        )
        return [(name, [_quantile(values, each) for each in QUANTILES]) for name, values in named]


async def calibrate(stores: Stores, embedding: Embedding, asked: Mapping[str, Sections]) -> Calibration:
    right: list[float] = []
    related: list[float] = []
    for question, sections in asked.items():
        found = await retrieve(stores, embedding, question, threshold=EVERYTHING)
        right += (
            [max(fits)]
            if (fits := [each.similarity for each in found.chunks if answers(each, sections)])
            else []
        )
        related.append(await _nearest(stores, embedding, question))
    unrelated = [await _nearest(stores, embedding, each) for each in UNRELATED]
    return Calibration(tuple(right), tuple(related), tuple(unrelated))


async def hits(
    stores: Stores,
    embedding: Embedding,
    asked: Mapping[str, Sections],
    *,
    way: Way = "fused",
    top_k: int = TOP_K,
) -> list[str]:
    """The questions whose right section is among the first, by the model's own threshold."""
    found: list[str] = []
    for question, sections in asked.items():
        retrieved = await retrieve(stores, embedding, question, way=way, top_k=top_k)
        if any(answers(each, sections) for each in retrieved.chunks):
            found.append(question)
    return found


def answers(chunk: RetrievedChunk, sections: Sections) -> bool:
    title = _plain(chunk.section_title or "")
    return any(chunk.file_name == file and title.startswith(_plain(heading)) for file, heading in sections)


async def ingest_folder(stores: Stores, embedding: Embedding, files: Iterable[Path]) -> int:
    """How many chunks they have."""
    chunks = 0
    for file in sorted(files):
        policy = await upload(stores, Upload(file.name, file.read_bytes()))
        policy = await ingest(stores, policy.id, None, embedding)
        if not policy.serves:
            raise InvalidRequest(f"{file.name}: {policy.error_message}")
        chunks += policy.total_chunks or 0
    return chunks


async def _nearest(stores: Stores, embedding: Embedding, question: str) -> float:
    found = await retrieve(stores, embedding, question, threshold=EVERYTHING, way="plain", top_k=1)
    return found.max_similarity


def _quantile(values: Sequence[float], share: float) -> float:
    """Between the two that lie around it."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def table(calibration: Calibration) -> str:
    """As Markdown."""
    heads = ["similarity of", *(f"{share:.0%}" for share in QUANTILES)]
    lines = [heads, ["---"] * len(heads)]
    lines += [[name, *(f"{value:.2f}" for value in values)] for name, values in calibration.rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def _main(folder: Path, questions: Path) -> str:
    asked: dict[str, list[tuple[str, str]]] = {}
    with questions.open(newline="", encoding="utf-8") as lines:
        for question, file, heading in csv.reader(lines):
            asked.setdefault(question, []).append((file, heading))
    system = System(
        "calibration", "Policies", tables=[], patterns=[], schemas=[tripcortex], buckets=[policy_files]
    )
    embedding = local_embedding()
    async with stores_in_memory(system) as stores:
        await prepare(stores, system)
        chunks = await ingest_folder(stores, embedding, (each for each in folder.iterdir() if each.is_file()))
        shown = table(await calibrate(stores, embedding, asked))
        counts = {way: len(await hits(stores, embedding, asked, way=way)) for way in ("plain", "fused")}
    told = ", ".join(f"{way} {count} of {len(asked)}" for way, count in counts.items())
    return f"{chunks} chunks, {embedding.model_id}\n\n{shown}\n\nThe right section among the first {TOP_K}: {told}\n"


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(_main(Path(sys.argv[1]), Path(sys.argv[2]))))
