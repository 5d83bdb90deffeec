"""Evolution of a population of α on a box (Mierswa, GECCO 2006): operators, generations, coordinate sweeps, swarm.

A population is an array of shape (individuals, n). Every operator works on the whole array, and one matrix product a
generation evaluates all individuals.
"""
