"""All thresholds that decide whether and how a problem is solved directly.

A function that decides takes its `Thresholds` as an argument, so that a test can pass others.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Sizes at which one direct method replaces another, measured by `benchmarks/classical`.

    "Wide" data have more than `core.radial.FEW_FEATURES` features, whose products BLAS makes; "shared" kernel values
    serve several pairs of classes.
    """

    # --- the dense matrix of a pair, solved in float64 ------------------------------------------------

    #: Points of a pair, up to which its dense matrix is cheap.
    max_pair_dense: int = 640
    #: Points of a pair whose blocks are shared.
    max_pair_shared: int = 1600
    #: Points of a pair whose blocks are shared, of wide data: products take most of a run's time.
    max_pair_shared_wide: int = 2400
    #: Points of one pair whose kernel rows are expensive (a radial kernel of many features, dense or sparse): a run
    #: makes their values up to three times. The matrix takes 128 MB.
    max_pair_dense_expensive: int = 4000
    #: Bound of the multipliers (of a radial kernel, whose diagonal is 1) up to which such a pair is solved from its
    #: matrix: with larger bounds SMO more often needs more updates than the next threshold allows.
    max_bound_expensive: float = 30.0
    #: SMO updates for each point of such a pair.
    max_dense_updates_per_point: int = 8
    #: Points of all classes, up to which one matrix is made for all pairs.
    max_points_one_matrix: int = 512
    #: SMO updates, after which a pair of many points is left to a run.
    max_dense_updates: int = 4096
    #: The same for a pair of wide data.
    max_dense_updates_wide: int = 20_000
    #: Kernel values within classes that are kept for all pairs: 128 MB.
    max_kept_entries: int = 1 << 24
    #: Kernel values of a strip between classes: 8 MB.
    max_strip_entries: int = 1 << 20
    #: Mean squared distance of the points in feature space, as a part of the largest squared length, below which
    #: kernel values have lost the digits that count.
    min_relative_spread: float = 1e-6
    #: Mean squared distance of a pair's points from their mean, as a part of that from the mean of all classes, below
    #: which their kernel values are about their own mean: two digits may be lost.
    min_spread_shared: float = 0.01

    # --- a pair from its points: kernel rows are made on demand -----------------------------------

    #: Points of a pair.
    max_pair_points: int = 8192
    #: Numbers of a pair's data.
    max_pair_numbers: int = 600_000
    #: Numbers of a pair's data, if they are wide: 1.2 to 2 × faster than a run where less than half of the points are
    #: support vectors, 0.7 to 1.2 × where nearly all are.
    max_pair_numbers_wide: int = 1_000_000
    #: Numbers of a pair's data, if they are wide and the pair is one of several classes.
    max_pair_numbers_wide_shared: int = 2_000_000
    #: Points of a pair of several classes, below which shared blocks are as fast.
    min_pair_points_multiclass: int = 320
    #: Points of the smallest pair, from which all pairs are one list.
    min_pair_points_list: int = 80
    #: Points of the smallest pair for each feature, above which all pairs are one list: BLAS makes all rows of fewer
    #: in less time than the compiled product makes the requested ones.
    min_points_per_feature: int = 5
    #: Points of a pair, beyond which samples say how many support vectors to expect, and up to which wide data are
    #: solved from their points.
    max_points_unsampled: int = 4096
    #: Points of the two samples.
    sample_points: tuple[int, int] = (512, 1024)
    #: Support vectors that may be expected.
    max_expected_support: int = 3000
    #: Free support vectors that may be expected.
    max_expected_free: int = 1000
    #: Numbers of all points, up to which these are made ready for all pairs together: 64 MB.
    max_ready_numbers: int = 1 << 23

    # --- the search: what is made, and when it is given up ----------------------------------------

    #: Points, up to which all kernel rows are made if many are requested; a search over more points is given up.
    max_points_filled: int = 640
    #: SMO updates of a search over more points.
    max_updates: int = 1 << 15
    #: Kernel rows that may be requested, as a part of the points.
    max_row_share: float = 0.6
    #: Kernel rows that may be requested where points or features are many.
    max_rows: int = 1000
    #: Points, beyond which `max_rows` holds.
    max_points_by_share: int = 4096
    #: Features, beyond which `max_rows` holds.
    max_features_by_share: int = 32
    #: Kernel rows that may be requested where half of the support vectors are at their bounds, as a part of the points.
    max_row_share_bounded: float = 2 / 3
    #: Kernel values that may be requested where half of the support vectors are at their bounds, of more points.
    max_values_bounded: int = 1 << 24
    #: Kernel rows that may be requested, for each support vector that is expected.
    max_rows_per_expected: float = 1.5
    #: Multiplications of the rows that may be requested, from which they are in float32 first: the float64 steps that
    #: follow take a quarter of a millisecond.
    min_rows_float32: float = 4_500_000
    #: Give up if the variables that float32 leaves undetermined outnumber both this × the free ones and
    #: `working_set.dense.MAX_NEARLY_FREE`. In an ill-conditioned problem they would join a few at a time.
    max_undetermined_per_free: int = 2

    # --- the product that a certificate is made of ------------------------------------------------

    #: Multiplications of a product of a compiled list of pairs, from which float32 is tried.
    min_list_product_float32: float = 1 << 19
    #: Multiplications of a product of one problem, from which float32 is tried.
    min_product_float32: float = 1 << 23
    #: Points whose sign float32 may leave undetermined, as a part of all.
    max_uncertain_share: float = 0.3
    #: If a sign is undetermined, a point is recomputed in float64 unless ρ is larger than this many error bounds. More
    #: than 1, because ν may still move.
    safe_errors: float = 2.0

    # --- other problems, over the whole matrix of their points ------------------------------------

    #: Variables: of more, a run takes less time.
    max_whole_variables: int = 1280
    #: The same for points of many features: products take most of the time, and a run makes them up to three times. The
    #: matrix takes 128 MB.
    max_whole_variables_wide: int = 4096
    #: Features from which `max_whole_variables_wide` holds.
    min_features_whole_wide: int = 128
    #: The same for a radial kernel and small bounds: most support vectors are then at them, and few updates suffice.
    min_features_whole_bounded: int = 64
    #: Largest of these bounds: from 3 on, pair updates often take more time than a run.
    max_bound_whole: float = 1.0
    #: Points of the larger of two samples that say, of more variables than `max_whole_variables`, whether many points
    #: are support vectors.
    sample_points_whole: int = 256
    #: Support vectors of the sample, as a part of it, from which the whole matrix is made.
    min_support_share_whole: float = 0.5
    #: Squared distance of two points in feature space, by the mean of their squared lengths, up to which they nearly
    #: repeat: float32 keeps one digit of it.
    max_distance_near: float = 1e-6
    #: Points of the sample that nearly repeat another one, as a part of it, from which the whole matrix is made. A run
    #: takes 1.2 to 3.5 × the time, and leaves gaps of 1e-6.
    min_share_near: float = 0.5
    #: SMO updates for each variable, up to `max_whole_variables`.
    max_whole_updates: int = 20
    #: SMO updates for each variable, of more.
    max_whole_updates_wide: int = 8
    #: Free variables that take a Newton step together after the pair loop: a second.
    max_free_polished: int = 4096

    # --- a problem on the simplex, from its points ------------------------------------------------

    #: Points of it: of more, a run is as fast.
    max_simplex_points: int = 24_000
    #: Numbers of its data: of more, a run takes half the time.
    max_simplex_numbers: int = 1_200_000
    #: Points that the start gives weight to.
    max_start_points: int = 800


#: The thresholds of every fit.
USUAL = Thresholds()
