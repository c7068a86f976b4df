"""Least-privilege permissions of components: IAM policies and SQL grants."""
