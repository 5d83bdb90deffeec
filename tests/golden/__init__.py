"""A record of what fits come to, bit by bit: written by one tree, compared by another on the same machine."""
