"""The demo of AgenticPM: sample data, sandboxes of Jira, Asana, Outlook, Resend and Claude, and the story."""
