"""The Outlook client, which reads a mailbox through Microsoft Graph."""
