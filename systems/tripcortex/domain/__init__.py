"""Pure rules of Trip Cortex: planning from a sentence, policy rules, policy search."""
