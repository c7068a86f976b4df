"""The port of secrets: from variables, from a file and from Secrets Manager."""
