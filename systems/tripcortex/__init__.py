"""Trip Cortex: books corporate travel from a sentence within the company's policy; the employee chooses."""
