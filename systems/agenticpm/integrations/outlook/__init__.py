"""The Outlook client: reads a mailbox through Microsoft Graph."""
