"""A test kit for solvers."""
