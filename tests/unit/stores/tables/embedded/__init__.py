"""Tests of the embedded tables engine: behaviour that the wire protocol cannot show."""
