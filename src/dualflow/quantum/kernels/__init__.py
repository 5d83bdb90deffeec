"""Kernels made of quantum states: feature maps, and fidelities computed or measured."""
