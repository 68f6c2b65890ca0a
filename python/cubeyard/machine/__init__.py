"""Machines: their values, measurements of their fabric, and checks against known figures."""
