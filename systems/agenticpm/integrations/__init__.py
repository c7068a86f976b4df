"""Clients of the external services, each behind a port of `tickets`: Jira, Asana, Outlook and Resend.

    credentials.py  the credentials of each service, validated
    factory.py      opens a client from an integration and its credentials
    jira/, asana/, outlook/, resend/  one package per service

The rest of the system knows only the ports. Every response is validated before it is used.
"""
