"""The AgenticPM system: an autonomous project manager that keeps all of its state in one table."""
