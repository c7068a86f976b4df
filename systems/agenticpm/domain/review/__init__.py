"""Review of a whole project: what a project manager would name on reading its tickets, sprints and mails.

`records` are the facts, `ticket_signals`, `sprint_signals` and `forecast` find what needs attention,
`proposals` reads the texts, and `review` puts them together and derives the health.
"""
