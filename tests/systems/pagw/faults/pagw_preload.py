"""Load the FHIR models before the gateway's processes are forked."""

from __future__ import annotations

from pagw.domain.profiles import load_profiles

load_profiles()
