"""Machines: their topology, measurements of their fabric, and validation against known figures."""
