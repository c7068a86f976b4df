"""The life of the company's travel policies: uploaded, parsed, embedded, and retrieved for a question.

    upload → ingest (parse → embed → rows) → serves                 `uploads`, `ingestion`, `editions`
    question → nearest chunks (A1) + full text (A7) → rank fusion   `retrieval`, `embedding`

`tripcortex.model.policies` declares the PostgreSQL rows, the files and their access patterns. `calibration`
measures the similarity from which a model's passage is relevant. docs/systems/tripcortex/retrieval.md
explains the method and its quality.
"""

from __future__ import annotations
