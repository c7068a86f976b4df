"""The sample data. Each part is a pure function of a block, which is five days of flying.

schedule → journeys → bags; crew, cargo, maintenance, past_disruptions. `loader` writes as many blocks as the
scale requires, one after the other.
"""
