"""The rules of airline operations and their reference data: pure functions without access to stores."""
