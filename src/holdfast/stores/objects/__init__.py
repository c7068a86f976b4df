"""Objects: the port, what every engine asks of a request (`checks.py`), and the engines: `local` (a folder,
memory), `s3`.
"""
