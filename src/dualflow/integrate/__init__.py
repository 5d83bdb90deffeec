"""Numerical methods that integrate the flows of `dualflow.flows`."""
