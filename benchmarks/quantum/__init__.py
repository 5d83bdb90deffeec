"""Solvers and kernels that run circuits."""
