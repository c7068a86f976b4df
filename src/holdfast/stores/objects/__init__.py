"""Objects: the port, the checks that every engine makes of a request (`checks.py`), and the engines: `local`
(a folder, memory), `s3`.
"""
