"""The Resend client, which sends mail."""
