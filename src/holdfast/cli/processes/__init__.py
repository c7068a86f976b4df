"""Processes of `holdfast run` and `holdfast up`: plan what each runs, start and supervise them."""
