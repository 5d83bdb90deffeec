"""The quantum solvers, one file each with its state, steps and options, and their base classes and models."""
