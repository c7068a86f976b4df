"""Clients of the external services Jira, Asana, Outlook, Resend and Claude, each behind a port of `tickets`.

    credentials.py  the credentials of each service, validated
    factory.py      opens a client from an integration and its credentials
    clients.py      the open clients of one process, reopened when their credentials change
    jira/, asana/, outlook/, resend/, claude/  one package per service

The rest of the system knows only the ports. Every response is validated before it is used.
"""
