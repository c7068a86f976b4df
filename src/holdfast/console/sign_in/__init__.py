"""Signing in to the console, out of it, and the pages about that: a user's account, all users, the audit.

user_file.py      the local users, in a file that only its owner may read
passwords.py      hashes of passwords, made and verified in a few threads
oidc.py           the identity provider: OpenID Connect with the authorization code flow
attempts.py       limits of attempts
sign_ins.py       sessions: begin, end one, end all of a user; the list of sign-ins
routes.py         the sign-in pages
account_routes.py the user's own account
admin_routes.py   users and audit, for administrators
"""
