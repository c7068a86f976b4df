"""The Jira client: tracker, search, read position, parsers of issues and of Atlassian Document Format."""
