"""The Resend client: sends mail."""
