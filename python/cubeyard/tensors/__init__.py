"""Contexts: a machine with its memory, the tensors in it, and the channels between its PEs."""
