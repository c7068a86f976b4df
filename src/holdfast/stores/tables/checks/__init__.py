"""Checks that every engine makes on an operation before it runs it: do all parts have valid types and
values?
"""
