"""Training over parts of the data: each part is solved alone, survivors are solved together, and invaders join.

The cascade ends when a bound over all parts is within the tolerance. `CascadeSVC` is the estimator; this package
exports parts that are not read from an array, and the record of a round.
"""

from .parts import Part, RowGroup, row_groups
from .records import Round

__all__ = ["Part", "Round", "RowGroup", "row_groups"]
