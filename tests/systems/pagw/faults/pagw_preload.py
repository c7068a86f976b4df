"""Load the FHIR models before the gateway's processes are forked."""

from __future__ import annotations

from pagw.domain.fhir.rules.structure import load_models

load_models()
