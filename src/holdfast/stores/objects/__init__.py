"""The objects store: its port, request checks (`checks.py`), and the engines `local` (folder or memory) and
`s3`.
"""
