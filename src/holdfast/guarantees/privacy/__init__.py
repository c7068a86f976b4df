"""Privacy: redaction of personal identifiers, retention and erasure of stored data, and scanning of files."""
