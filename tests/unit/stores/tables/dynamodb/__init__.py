"""The DynamoDB engine beyond its contract: credentials, retries, unknown outcomes, and every SDK error."""
