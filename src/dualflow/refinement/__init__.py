"""From a rough answer to an exact one: an active-set method, and the linear systems that it solves."""
