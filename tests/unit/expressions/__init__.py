"""The expression language: reading it, evaluating it, updating and projecting with it."""
