"""Quantum kernels: feature maps, fidelity and projected kernels, their training and concentration."""
