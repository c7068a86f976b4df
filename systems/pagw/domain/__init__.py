"""Pure rules without I/O: FHIR and PAS, statuses, deadlines, attachments, webhook addresses, redaction."""
