"""Trip Cortex: books corporate travel from a sentence, inside the company's policy, with a person
choosing.
"""
