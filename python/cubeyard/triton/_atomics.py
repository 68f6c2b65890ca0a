"""Atomic operations."""
