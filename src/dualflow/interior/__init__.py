"""The engine of `interior-point`: Newton steps towards the optimality conditions, from within the bounds."""
