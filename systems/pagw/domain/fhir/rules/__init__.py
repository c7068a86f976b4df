"""Rules of FHIR R4 and Da Vinci PAS. Each check returns issues; `pas_rules` runs all checks of a Bundle."""
