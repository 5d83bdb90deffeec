"""`scaling_study`: its numbers against single solves, its floors against samples, its controls, table and figure."""

import csv
import io
import math

import numpy as np
import pytest
from matplotlib.figure import Figure

import dualflow
from dualflow import Gram, Noise, ProblemError, ScalingDisplay, ScalingStudy, SolverMismatch, problems, scaling_study
from dualflow.core.certificate import Certifier
from dualflow.core.shot_floor import sampled

X = [[0.0, 0.1], [1.0, 0.3], [0.2, 2.0], [3.0, 1.0], [2.0, 2.5], [1.5, 0.7], [0.4, 1.4], [2.6, 0.2]]
FLOW = "variational-flow"
RUN = {"device": "emulator", "steps": 30}


def ball():
    return problems.svdd(Gram(X, gamma=0.5))


@pytest.fixture(scope="module")
def study():
    return scaling_study(ball(), FLOW, shots=[100, 10_000], seeds=3, **RUN)


def test_points_are_medians_and_quartiles_of_single_solves(study):
    best = dualflow.solve(ball(), tol=1e-10).certificate.objective
    runs = [dualflow.solve(ball(), FLOW, shots=100, random_state=seed, **RUN) for seed in range(3)]
    gaps = sorted(run.raw_certificate.relative_gap for run in runs)
    excess = sorted((run.raw_certificate.objective - best) / abs(best) for run in runs)
    point = study.points[0]
    assert (point.role, point.device, point.n, point.qubits, point.seeds, point.failed) == (
        "quantum",
        "emulator",
        8,
        3,
        3,
        0,
    )
    assert (point.shots, point.total_shots, point.circuits) == (100, 3100, 31)
    assert point.gap == pytest.approx(gaps[1], rel=1e-12)
    assert point.gap_low == pytest.approx(0.5 * (gaps[0] + gaps[1]), rel=1e-12)
    assert point.excess == pytest.approx(excess[1], rel=1e-6)
    assert point.excess_high == pytest.approx(0.5 * (excess[1] + excess[2]), rel=1e-6)


def test_floors_are_those_of_the_sampled_optimum(study):
    """Against 200 draws of the exact optimum: the median of 9 is within a factor 2 of theirs."""
    problem, rng = ball(), np.random.default_rng(5)
    best = dualflow.solve(problem, tol=1e-10)
    certifier = Certifier(problem)
    for point in (point for point in study.points if point.role == "quantum"):
        draws = [certifier.certify(sampled(problem, best.alpha, int(point.total_shots), rng)) for _ in range(200)]
        gap = np.median([draw.relative_gap for draw in draws])
        f = best.certificate.objective
        excess = np.median([(draw.objective - f) / abs(f) for draw in draws])
        assert 0.5 < point.gap_floor / gap < 2
        assert 0.5 < point.excess_floor / excess < 2


def test_controls_stand_beside_every_number_of_shots(study):
    assert [point.device for point in study.points] == ["emulator", "null", "control:random", "classical-sampler"] * 2
    null, sampler = study.points[5], study.points[7]
    assert null.excess > 100 * sampler.excess
    assert study.points[0].excess > 3 * study.points[4].excess  # 100 times as many shots
    assert all(math.isfinite(point.excess_floor) for point in study.points)


def test_table_csv_and_frame_hold_the_same_numbers(study, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = study.to_frame()
    assert list(frame.columns) == list(study.columns)
    assert frame.loc[0, "gap"] == study.points[0].gap
    path = tmp_path / "study.csv"
    assert study.to_csv(path) is None
    assert path.read_text() == study.to_csv()
    rows = list(csv.DictReader(io.StringIO(study.to_csv())))
    assert float(rows[4]["excess"]) == study.points[4].excess
    assert rows[1]["noise"] == ""
    assert pd.read_csv(path)["shots"].tolist() == frame["shots"].tolist()
    text = str(study)
    assert "(classical-sampler)" in text
    assert "read the excess beside its floor" in text


def test_without_pandas_the_frame_names_the_way_out(study, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        study.to_frame()


def test_noise_sizes_and_options_are_axes_of_their_own():
    options = {"ansatz": "hardware-efficient", "steps": 3}
    found = scaling_study(
        ball(),
        FLOW,
        shots=200,
        noise=[0, 0.05, Noise(0.02, 0.1)],
        sizes=[4, 8],
        vary={"layers": [1, 3]},
        seeds=[7],
        **options,
    )
    own = [point for point in found.points if point.role == "quantum"]
    assert found.axes == ("n", "layers", "noise")
    assert found.columns[-1] == "layers"
    assert [(p.n, p.varied["layers"], p.noise) for p in own] == [
        (n, layers, level) for n in (4, 8) for layers in (1, 3) for level in (0.0, 0.05, 0.02)
    ]
    assert [p.qubits for p in own[:1] + own[-1:]] == [2, 3]
    assert own[0].depth < own[3].depth
    assert sum(point.role == "control" for point in found.points) == 3 * 4
    display = ScalingDisplay.from_study(found, x="depth", ax=Figure().subplots(2, 1))
    assert "variational-flow, noise = 0.05" in display.lines_[0]
    assert len(display.lines_[0]["null"].get_xdata()) == 4


def test_exact_distributions_have_no_floor_and_no_classical_sampler():
    found = scaling_study(ball(), FLOW, shots=None, seeds=1, **RUN)
    assert [point.device for point in found.points] == ["emulator", "null", "control:random"]
    assert math.isnan(found.points[0].gap_floor)
    assert "exact" in str(found)


def test_a_failed_run_is_counted_with_its_reason():
    found = scaling_study(ball(), FLOW, shots=100, seeds=2, controls=False, mitigation="confusion", device="null")
    point = found.points[0]
    assert (point.seeds, point.failed) == (0, 2)
    assert "confusion" in point.reason
    assert math.isnan(point.gap)
    with pytest.raises(ProblemError, match="no point"):
        found.plot(ax=Figure().subplots(2, 1))


def test_ctrl_c_keeps_the_settings_that_are_finished():
    def stop(done, total, text):
        assert total == 8
        assert "seed" in text
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        scaling_study(ball(), FLOW, shots=100, seeds=2, progress=stop, **RUN)
    kept = caught.value.study
    assert isinstance(kept, ScalingStudy)
    assert len(kept) == 1


def test_the_figure_shows_medians_bands_floors_and_controls(study):
    display = study.plot(ax=Figure().subplots(2, 1))
    assert list(display.lines_[0]) == [FLOW, "null", "control:random", "classical-sampler"]
    own = [point for point in study.points if point.role == "quantum"]
    np.testing.assert_array_equal(display.lines_[1][FLOW].get_xdata(), [100, 10_000])
    np.testing.assert_array_equal(display.lines_[1][FLOW].get_ydata(), [point.excess for point in own])
    np.testing.assert_array_equal(display.floors_[0][0].get_ydata(), [point.gap_floor for point in own])
    band = display.bands_[0][FLOW].get_paths()[0].vertices[:, 1]
    assert band.min() == min(point.gap_low for point in own)
    assert "floor of all shots of a run" in [text.get_text() for text in display.legend_.get_texts()]
    assert display.axes_[0].get_xscale() == display.axes_[1].get_yscale() == "log"
    one = ScalingDisplay.from_study(study, x="total_shots", y="excess", ax=Figure().subplots())
    assert len(one.axes_) == 1
    with pytest.raises(ProblemError, match=r"x='dept'.*'depth'"):
        study.plot(x="dept")
    with pytest.raises(ProblemError, match="y='gaps'"):
        study.plot(y="gaps")
    with pytest.raises(ProblemError, match="scaling_study returns"):
        ScalingDisplay.from_study([1])


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"solver": "smo"}, ProblemError, "samples no circuits"),
        ({"solver": "variational-lotka-volterra"}, SolverMismatch, "set nu below 1"),
        ({"shots": []}, ProblemError, "shots is empty"),
        ({"shots": [0]}, ProblemError, "shots"),
        ({"seeds": 0}, ProblemError, "seeds is empty"),
        ({"seeds": [-1]}, ProblemError, "seeds"),
        ({"sizes": [16]}, ProblemError, "more than the 8 variables"),
        ({"vary": {"layer": [1]}}, ProblemError, "layers"),
        ({"vary": {"shots": [1]}}, ProblemError, "vary='shots'"),
        ({"noise": 0.1, "device": "emulator"}, ProblemError, "device='aer'"),
        ({"noise": 2.0}, ProblemError, "depolarizing=2.0"),
        ({"problem": [1, 2]}, ProblemError, "DualProblem"),
    ],
)
def test_bad_arguments_name_themselves(changed, error, match):
    arguments = {"problem": ball(), "solver": FLOW} | changed
    with pytest.raises(error, match=match):
        scaling_study(**arguments)


def test_a_real_machine_is_refused(tmp_path):
    from dualflow.testing.cloud import FakeCloud

    with pytest.raises(ProblemError, match="real machine"):
        scaling_study(ball(), FLOW, device=FakeCloud(tmp_path / "cloud"))


def test_two_factors_have_each_floor_once_and_name_the_grey_lines():
    found = scaling_study(ball(), FLOW, shots=[100, 10_000], noise=[0, 1e-3, 1e-2], seeds=1, **RUN | {"device": "aer"})
    display = found.plot(x="shots", ax=Figure().subplots(2, 1))
    (floor,) = display.floors_[0]  # the same at each noise
    assert floor.get_color() == "#222222"
    assert [text.get_text() for text in display.legend_.get_texts()][-1] == "floor of all shots of a run"

    display = found.plot(x="noise", ax=Figure().subplots(2, 1))
    floors, lines = display.floors_[0], display.lines_[0]
    own = [lines[f"{FLOW}, shots = {shots:,}"] for shots in (100, 10_000)]
    assert [floor.get_color() for floor in floors] == [line.get_color() for line in own]
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts[-1] == "floor of all shots of a run, in the colour of its line"
    assert "null (measured at noise = 0)" in texts
    sampler = {p.shots: p.gap for p in found.points if p.device == "classical-sampler"}
    heights = {note.get_text(): note.xy[1] for note in display.axes_[0].texts}
    assert heights["classical-sampler, shots = 100"] == sampler[100]
    assert heights["classical-sampler, shots = 10,000"] == sampler[10_000]
    ends = {name: display.lines_[0][name].get_ydata()[-1] for name in ("null", "control:random")}
    assert "\n".join(sorted(ends, key=ends.get, reverse=True)) in heights  # the higher line's name stands above

    axes = display.axes_[0]
    low, high = axes.get_xlim()
    left, zero, first, last, right = axes.get_xaxis().get_transform().transform([low, 0, 1e-3, 1e-2, high])
    width = right - left
    assert 0.05 * width < zero - left < 0.1 * width  # no value at the frame
    assert 0.05 * width < right - last < 0.1 * width
    assert first - zero < 0.3 * width
