"""Training over parts of the data: parts train, survivors travel and invade, and a bound over all parts ends it.

`CascadeSVC` is the door. Here are the descriptions of parts that no array holds, and what a round came to.
"""

from .parts import Part, RowGroup, row_groups
from .records import Round

__all__ = ["Part", "Round", "RowGroup", "row_groups"]
