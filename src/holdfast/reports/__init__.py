"""Reports: what follows from a model. Each takes a `System` and gives values; hosts show them.

examples → measuring → pattern list, design check, cost: from calling patterns with their examples, and running them.
"""
