"""The driver: the loop over a solver's steps, with its limits, certificates and checkpoints."""
