"""Batch machines and their peers: LIBSVM, general QP solvers."""
