"""Mail: bytes to headers and text, the sender's own words, and the recognition of automatic mail."""
