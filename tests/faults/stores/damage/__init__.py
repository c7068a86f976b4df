"""Damage to every file of a data folder: what is damaged, how, and what the stores may then say.

contents.py   what the stores of a folder hold, and whether a store still returns it
process.py    a process with the stores open, which answers commands
folders.py    the folder, the copies of earlier times, and the damages
"""
