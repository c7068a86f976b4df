"""The parts of the sample, each a pure function of a block: schedule → journeys → bags; crews, freight, workshop, hits.

A block is five days of flying. `skymarshal.sample` writes as many of them as the scale asks for, one after the other.
"""
