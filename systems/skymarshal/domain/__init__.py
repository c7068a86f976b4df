"""The rules of the trade and its reference data: pure functions, without stores."""
