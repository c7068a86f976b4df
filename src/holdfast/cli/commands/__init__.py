"""The commands of `holdfast`, one module each.

A command imports its own dependencies when it runs, so that the others start fast.
"""
