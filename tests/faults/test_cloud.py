"""Runs of ``python -m tests.faults.cloud`` with and without tags and checkpoint; two hundred are in .ci/long."""

import pytest

from tests.faults.cloud import live


@pytest.mark.parametrize("seed", [0, 5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4, 7, 8))])
def test_a_run_that_is_killed_comes_to_the_same_bits_and_pays_once(seed):
    assert live(seed)["bit-same"] == 1
