"""What the company's travel policies say: uploaded, taken apart, embedded, and found again for a question.

    upload → ingest (parse → embed → rows) → serves          `ingesting`, `files`, `embedding`
    question → nearest chunks (A1) + chunks by words → fused  `retrieving`, `fusing`

`schema` and `patterns` say what is kept in PostgreSQL and how it is asked for; `calibrating` measures from which similarity on
a passage of a model's is about the question. How it works and how well is in docs/retrieval.md.
"""

from __future__ import annotations
