"""The thresholds that choose whether and in which way a problem is solved directly.

Limits within one way are beside its code.

A function that decides takes its `Thresholds` as an argument, so that a test can pass others.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.mixed_precision import MAX_UNCERTAIN_SHARE, SAFE_ERRORS


@dataclass(frozen=True)
class Thresholds:
    """Sizes at which one direct method replaces another, measured by `benchmarks/classical`.

    "Wide" data have more than `core.radial.FEW_FEATURES` features, whose products BLAS makes; "shared" kernel values
    serve several pairs of classes.
    """

    # --- the dense matrix of a pair, solved in float64 ------------------------------------------------

    #: A pair of up to this many points is solved from its dense matrix, which is cheap.
    max_pair_dense: int = 640
    #: A pair of up to this many points is solved from blocks that the pairs share.
    max_pair_shared: int = 1600
    #: The same limit for wide data, whose products take most of a run's time.
    max_pair_shared_wide: int = 2400
    #: The same limit for one pair whose kernel rows are expensive: a radial kernel of many features, dense or sparse. A
    #: run would make their values up to three times. The matrix takes 128 MB.
    max_pair_dense_expensive: int = 4000
    #: Such a pair is solved from its matrix only if its bounds are at most this. The unit is that of a radial kernel,
    #: whose diagonal is 1. With larger bounds SMO more often needs more updates than the next threshold allows.
    max_bound_expensive: float = 30.0
    #: SMO updates for each point of such a pair.
    max_dense_updates_per_point: int = 8
    #: If all classes together have at most this many points, one matrix is made for all pairs.
    max_points_one_matrix: int = 512
    #: If a pair of many points needs more SMO updates than this, a run solves it.
    max_dense_updates: int = 4096
    #: The same limit for a pair of wide data.
    max_dense_updates_wide: int = 20_000
    #: Kernel values within classes that are kept for all pairs: 128 MB.
    max_kept_entries: int = 1 << 24
    #: Kernel values of a strip between classes: 8 MB.
    max_strip_entries: int = 1 << 20
    #: If the mean squared distance of the points in feature space is below this share of the largest squared length,
    #: kernel values have lost the digits that count.
    min_relative_spread: float = 1e-6
    #: If the mean squared distance of a pair's points from their own mean is below this share of that from the mean of
    #: all classes, their kernel values are computed about their own mean. Otherwise two digits may be lost.
    min_spread_shared: float = 0.01

    # --- a pair from its points: kernel rows are made on demand -----------------------------------

    #: Points of a pair, at most.
    max_pair_points: int = 8192
    #: Numbers of a pair's data, at most.
    max_pair_numbers: int = 600_000
    #: The same limit for wide data. It is 1.2 to 2 × faster than a run if less than half of the points are support
    #: vectors, and 0.7 to 1.2 × if nearly all are.
    max_pair_numbers_wide: int = 1_000_000
    #: The same limit for wide data if the pair is one of several classes.
    max_pair_numbers_wide_shared: int = 2_000_000
    #: Points of a pair of several classes, at least. With fewer, shared blocks are as fast.
    min_pair_points_multiclass: int = 320
    #: If the smallest pair has at least this many points, all pairs are one list.
    min_pair_points_list: int = 80
    #: All pairs are one list only if the smallest one has more points per feature than this. With fewer, BLAS makes all
    #: rows in less time than the compiled product makes the requested ones.
    min_points_per_feature: int = 5
    #: With more points, samples of the pair estimate its number of support vectors. Wide data are solved from their
    #: points only up to this number.
    max_points_unsampled: int = 4096
    #: Points of the two samples.
    sample_points: tuple[int, int] = (512, 1024)
    #: Support vectors that may be expected.
    max_expected_support: int = 3000
    #: Free support vectors that may be expected.
    max_expected_free: int = 1000
    #: Up to this many numbers, the points are made ready for all pairs together: 64 MB.
    max_ready_numbers: int = 1 << 23

    # --- the search: what is made, and when it is given up ----------------------------------------

    #: Up to this many points, all kernel rows are made if many are requested. With more, such a search is given up.
    max_points_filled: int = 640
    #: SMO updates of a search over more points.
    max_updates: int = 1 << 15
    #: Largest share of the points whose kernel rows may be requested.
    max_row_share: float = 0.6
    #: Largest number of requested kernel rows if points or features are many.
    max_rows: int = 1000
    #: With more points than this, `max_rows` holds.
    max_points_by_share: int = 4096
    #: With more features than this, `max_rows` holds.
    max_features_by_share: int = 32
    #: The same share if half of the support vectors are at their bounds.
    max_row_share_bounded: float = 2 / 3
    #: Largest number of requested kernel values if half of the support vectors are at their bounds and points are many.
    max_values_bounded: int = 1 << 24
    #: Largest number of requested kernel rows for each expected support vector.
    max_rows_per_expected: float = 1.5
    #: If the requested rows take at least this many multiplications, they are made in float32 first. The float64 steps
    #: that follow take a quarter of a millisecond.
    min_rows_float32: float = 4_500_000
    #: Give up if the variables that float32 leaves undetermined outnumber both this × the free ones and
    #: `working_set.dense.MAX_NEARLY_FREE`. In an ill-conditioned problem they would join a few at a time.
    max_undetermined_per_free: int = 2

    # --- the product that a certificate is made of ------------------------------------------------

    #: If a product of a compiled list of pairs takes at least this many multiplications, float32 is tried.
    min_list_product_float32: float = 1 << 19
    #: If a product of one problem takes at least this many multiplications, float32 is tried.
    min_product_float32: float = 1 << 23
    #: If float32 leaves the sign of more than this share of the points undetermined, float64 computes all of them.
    max_uncertain_share: float = MAX_UNCERTAIN_SHARE
    #: If a sign is undetermined, a point is recomputed in float64 unless ρ is larger than this many error bounds.
    safe_errors: float = SAFE_ERRORS

    # --- other problems, over the whole matrix of their points ------------------------------------

    #: Variables, at most. With more, a run takes less time.
    max_whole_variables: int = 1280
    #: The same limit for points of many features. Their products take most of the time, and a run makes them up to
    #: three times. The matrix takes 128 MB.
    max_whole_variables_wide: int = 4096
    #: The same limit for the points if their kernel matrix is near its diagonal. The matrix takes 0.7 GB, and half of
    #: it in float32.
    max_points_near_diagonal: int = 9216
    #: Up to this coupling (`direct.newton.coupling`) a kernel matrix is near its diagonal. From 4 to 20, Newton's
    #: rounds take as long as pair updates, or do not end.
    max_coupling: float = 4.0
    #: The same limit for up to `max_whole_variables_wide` variables, one for each point. Above it, pair updates are as
    #: fast.
    max_coupling_updates: float = 0.5
    #: With fewer points, pair updates take less time than Newton's rounds.
    min_points_newton: int = 500
    #: Points of the sample that estimates the coupling. Its matrix takes a tenth of a millisecond.
    sample_points_coupling: int = 128
    #: With at least this many features, `max_whole_variables_wide` holds.
    min_features_whole_wide: int = 128
    #: The same for a radial kernel with small bounds. Most support vectors are then at their bounds, and few updates
    #: suffice.
    min_features_whole_bounded: int = 64
    #: Bounds up to this are small. From 3 on, pair updates often take more time than a run.
    max_bound_whole: float = 1.0
    #: With more variables than `max_whole_variables`, two samples estimate the share of support vectors. The larger one
    #: has this many points.
    sample_points_whole: int = 256
    #: If at least this share of the sample are support vectors, the whole matrix is made.
    min_support_share_whole: float = 0.5
    #: Two points nearly repeat if their squared distance in feature space is at most this share of the mean of their
    #: squared lengths. Float32 keeps one digit of it.
    max_distance_near: float = 1e-6
    #: If at least this share of the sample nearly repeats another point, the whole matrix is made. A run takes 1.2 to
    #: 3.5 × the time, and leaves gaps of 1e-6.
    min_share_near: float = 0.5
    #: SMO updates for each variable, up to `max_whole_variables`.
    max_whole_updates: int = 20
    #: SMO updates for each variable if there are more.
    max_whole_updates_wide: int = 8
    #: Up to this many free variables take a Newton step together after the pair loop: a second.
    max_free_polished: int = 4096

    # --- a kernel with few columns, by interior-point steps -----------------------------------------

    #: Columns per point, at most.
    max_rank_share: float = 1.0
    #: Points times the squared rank, at most. A step takes a tenth of a second for as many multiplications, and other
    #: ways to the optimum take less than 20 of them.
    max_rank_work: float = 5e8
    #: Up to this squared rank per variable, more than `max_pair_dense` variables take these steps before pair updates.
    max_squared_rank_per_variable: int = 20

    # --- a problem on the simplex, from its points ------------------------------------------------

    #: Points, at most. With more, a run is as fast.
    max_simplex_points: int = 24_000
    #: Numbers of the data, at most. With more, a run takes half the time.
    max_simplex_numbers: int = 1_200_000
    #: Features, at most.
    max_simplex_features: int = 256
    #: Points that the start gives weight to.
    max_start_points: int = 800

    # --- a problem on the simplex with a kernel of low rank, by rows on demand ---------------------

    #: Points, at least. With fewer, the whole matrix takes as little time.
    min_points_by_rows: int = 256
    #: Rank of the kernel by its features, at most.
    max_rank_by_rows: int = 256
    #: This many rows for each unit of the rank must be few of all.
    min_rows_per_rank: int = 4
    #: Rows that may be made for each unit of the rank: as many variables are free at an optimum, ...
    max_rows_per_rank: int = 6
    #: ... and besides as many as take this many multiplications: 15 ms, which other methods take at least.
    max_numbers_by_rows: float = 6e7
    #: An update takes as long as this many multiplications for each variable.
    update_cost_by_rows: int = 8


#: The thresholds of every fit.
USUAL = Thresholds()
