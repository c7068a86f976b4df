"""Cost and capacity: what each system costs, measured and estimated, and what grows hot with it."""
