"""Health checks of the stores, for `holdfast doctor`."""
