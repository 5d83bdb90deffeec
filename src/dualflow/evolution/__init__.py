"""Floor 2: evolution of a population of α on a box (Mierswa, GECCO 2006): operators, generations, sweeps, swarm.

A population is an array of shape (individuals, n), and every operator works on all of it at once; one matrix product
a generation evaluates all individuals.
"""
