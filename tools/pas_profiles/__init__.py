"""Compile the profiles of FHIR R4 and Da Vinci PAS into the tables that the PAGW checker runs."""
