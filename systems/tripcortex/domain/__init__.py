"""Pure rules of Trip Cortex, without stores or I/O: planning from a sentence, policy rules, policy search."""
