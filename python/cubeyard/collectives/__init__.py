"""Collectives: their measurement over sizes, algorithms in Python, and the machine that the ranks of a world share; the door is `cubeyard.distributed`."""
