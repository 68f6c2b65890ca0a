"""Studies: benches, their runs and sweeps, and comparisons of records."""
