"""The outside parties, each behind a port of `tickets.py`: Jira and Asana, a mailbox of Outlook, mail by Resend.

    credentials.py  what each party must be told, checked
    opening.py      from an integration and its credentials to a port that can be asked
    jira.py, asana.py, outlook.py, resend.py  the parties, in their own words

Nothing above knows which party it speaks to. What a party answers is material to be checked, never trusted.
"""
