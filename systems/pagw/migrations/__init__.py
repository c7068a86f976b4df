"""The schema `pagw`, made step by step: one module per revision, oldest first."""
