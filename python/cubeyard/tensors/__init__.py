"""Contexts: a simulated machine with its memory, tensors, and channels between PEs."""
