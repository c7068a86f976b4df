"""Tests of `holdfast.security`."""
