"""Collectives: sweeps, Python algorithms, and the machine of a world. Use them through `cubeyard.distributed`."""
