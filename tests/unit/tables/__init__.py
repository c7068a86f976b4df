"""The tables engine in process: what the protocol cannot show."""
