"""Floor 2: the flows as analog circuits. A netlist that a person can read, and ngspice to simulate it with.

A problem becomes a `Circuit` by `build`: numbers of parts, drawn with their errors. Its netlist is text; `simulate`
runs it in ngspice, a program of its own (Debian: ``apt install ngspice``), and reads α(t) back.
"""

from .circuit import Circuit, build
from .parts import Parts
from .program import simulate
from .trace import Trace

__all__ = ["Circuit", "Parts", "Trace", "build", "simulate"]
