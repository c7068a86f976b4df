"""The model explorer: what each installed system declares, its access patterns, and the check of its design.

routes.py            the pages
navigation.py        the addresses of what a system declares
glossary.py          one sentence for each term of the field
resources.py         tables, queues, buckets, SQL schemas and cache, as pages show them
accesses.py          which component uses which resource, by which patterns
pattern_rows.py      access patterns with their costs and findings; search and filters
arguments.py         the form of a pattern, made from its types
runs.py              running a pattern, and its result, masked
kept_results.py      results that a redirect leads to
analysis.py          measures, costs and findings of a system, computed in the background
diagrams/            inline SVG of the model, of its use, and of flows
"""

from __future__ import annotations

from holdfast.console.explorer.routes import router

__all__ = ["router"]
