"""Tests of the DynamoDB engine beyond its contract: credentials, retries, unknown outcomes, SDK errors."""
