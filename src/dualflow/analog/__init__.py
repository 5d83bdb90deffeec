"""The flows as analog circuits: a readable netlist, and its simulation by ngspice.

`build` makes a `Circuit` of a problem: the values of its parts, with drawn errors. The circuit's netlist is text.
`simulate` runs it in ngspice, a separate program (Debian: ``apt install ngspice``), and reads α(t).
"""

from .circuit import Circuit, build
from .parts import Parts
from .program import simulate
from .trace import Trace

__all__ = ["Circuit", "Parts", "Trace", "build", "simulate"]
