"""Pure rules: signals, conditions, autonomy, artefact contents. No stores, no I/O."""
