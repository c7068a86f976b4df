"""The pure rules of AgenticPM: signals, conditions, autonomy, artefact contents. No stores, no I/O."""
