"""What each quantum solver does between two read-outs: one engine a solver, named as it, and what they share."""
