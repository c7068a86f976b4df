"""Generators of the sample data, each a pure function of a block (five days of flying), and their loader.

schedule → journeys → bags; crew, cargo, maintenance, past_disruptions. `loader` writes as many blocks as the
scale requires, one after the other.
"""
