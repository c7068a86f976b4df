"""The overview: samples of every system's processes and stores, kept for an hour, and the page that shows
them.
"""
