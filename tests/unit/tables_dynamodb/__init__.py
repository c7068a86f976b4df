"""The DynamoDB engine beside its contract: credentials, retries, doubt, and every error of the SDK."""
