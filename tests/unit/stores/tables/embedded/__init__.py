"""The embedded tables engine: behaviour that the protocol cannot show."""
