"""What every engine asks of an operation before it does anything with it: are its parts what they should
be?
"""
