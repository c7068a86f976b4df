"""PAGW: a healthcare prior-authorisation gateway (FHIR, Da Vinci PAS) that loses and repeats no request."""
