"""The quantum solvers, one file each: the options, and what a run does between two read-outs."""
