"""Configuration: settings, environment variables, and the clients of the AWS SDK."""
