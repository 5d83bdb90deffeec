"""Small problems that are solved and certified in one call, without a run of the driver."""
