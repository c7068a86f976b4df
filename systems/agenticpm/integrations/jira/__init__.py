"""The Jira client: tracker, search, read position, and parsers of issues and Atlassian Document Format."""
