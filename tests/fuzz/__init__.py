"""Random searches for what the other tests did not think of; each is a program, and a short form of it a test."""
