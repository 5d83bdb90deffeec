"""The verdict of a comparison: one sentence that names the model to use, and one that names the solver."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .columns import gap_text, seconds_text, status_text
from .model import TIE_FACTOR, Results, Row, Section
from .scores import ModelScore, best_model, score_title

#: Maximum number of solvers that are named.
MAX_NAMED = 3
#: Scores of the positive class.
OF_ONE_CLASS = ("recall", "precision", "f1", "average_precision")


def verdict(section: Section) -> str:
    """Return the sentence that names the solver to use for one problem: the fastest that met the tolerance.

    Controls, repairs and emulated rows are never recommended.
    """
    if not (ranking := section.ranking):
        return "No verdict: no ranked row has a certified gap."
    if times := _times(section):
        return _use(times, section.tol, "optimal in", "")
    best = ranking[0]
    excess = "" if best.excess is None else f", excess {gap_text(best.excess)}"
    return (
        f"No solver met tol = {section.tol:g}. The best is {_name(best)}: raw gap {gap_text(best.raw_gap or 0.0)}"
        f"{excess} ({status_text(best)})."
    )


def overall(comparison: Results) -> str:
    """Return the sentence that names the model, if models were scored, and the one that names the solver.

    That is the solver with the least total time that met the tolerance on all problems.
    """
    if comparison.models and comparison.sections:
        n = comparison.settings.get("training rows", comparison.sections[0].n)
        return f"{models_verdict(comparison.models, comparison.scoring, n)} {solver_advice(comparison)}"
    return solvers_verdict(comparison)


def solver_advice(comparison: Results) -> str:
    """Return `solvers_verdict` as the sentence after that on models."""
    text = solvers_verdict(comparison)
    best = best_model(comparison.models, comparison.scoring)
    weights = None if best is None else best.class_weight
    ours = [score for score in comparison.models if score.solver is not None]
    chosen = next((score for score in ours if score.class_weight == weights), next(iter(ours), None))
    times = _total_times(comparison)[0]
    fastest = _fastest(times)
    if chosen is not None and chosen.solver in fastest:
        which = "the fastest" if chosen.solver == fastest[0] else "among the fastest"
        return f"The default solver, {chosen.solver}, was {which}; leave `solver` out."
    # The default is not among solvers that the user named.
    if chosen is not None and fastest and (chosen.fit_time_s or math.inf) <= times[fastest[0]]:
        return (
            f"Of the solvers that ran, {fastest[0]} was the fastest, in {seconds_text(times[fastest[0]])}; the "
            f"default, {chosen.solver}, took {seconds_text(chosen.fit_time_s or 0.0)}: leave `solver` out."
        )
    return f"As its solver, use{text.removeprefix('Use')}" if text.startswith("Use ") else text


def solvers_verdict(comparison: Results) -> str:
    """Return the sentence that names the solver with the least total time that met the tolerance on all problems.

    Beside models it is about the sections of all rows: those with circuits are of a subsample.
    """
    took, sections = _total_times(comparison)
    if len(sections) == 1:
        return verdict(sections[0])
    if not took:
        return f"No single solver met tol = {sections[0].tol:g} on all {len(sections)} problems."
    return _use(took, sections[0].tol, f"optimal on all {len(sections)} problems, in", " together")


def _total_times(comparison: Results) -> tuple[dict[str, float], tuple[Section, ...]]:
    """Return the seconds of each solver that met the tolerance on all problems, together, and the problems' sections.

    Beside models these are the sections without circuits, which are of a subsample.
    """
    sections = comparison.sections
    if comparison.models:
        sections = tuple(part for part in sections if all(row.device is None for row in part.rows)) or sections
    found = [_times(section) for section in sections]
    names = [name for name in (found or [{}])[0] if all(name in times for times in found)]
    return {name: sum(times[name] for times in found) for name in names}, sections


def _fastest(times: dict[str, float]) -> list[str]:
    """Return the solvers whose times are within `TIE_FACTOR` of the least, the fastest first, at most `MAX_NAMED`."""
    quickest = sorted(times, key=times.__getitem__)
    return [name for name in quickest if times[name] <= TIE_FACTOR * times[quickest[0]]][:MAX_NAMED]


def _times(section: Section) -> dict[str, float]:
    """Return the seconds of each solver that met the tolerance."""
    met: dict[str, float] = {}
    for row in section.ranking:
        if row.met(section.tol):
            met[_name(row)] = min(row.wall_time_s or 0.0, met.get(_name(row), float("inf")))
    return met


def _use(times: dict[str, float], tol: float, what: str, how: str) -> str:
    named = _fastest(times)
    least, most = (seconds_text(times[name]) for name in (named[0], named[-1]))
    took = least if least == most else f"{least} to {most}"
    names = " or ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    others = len(times) - len(named)
    slower = f"; {others} other{'s' if others > 1 else ''} met tol = {tol:g} in more time" if others else ""
    return f"Use {names}: {what} {took}{how}{slower}."


def _name(row: Row) -> str:
    """Return the solver and its device; the reference is named like any other solver."""
    return row.solver if row.device is None else f"{row.solver} on {row.variant}"


#: Headers of the table of models; the same cells are in the terminal and in the report.
MODEL_HEADERS = (
    "model",
    "balanced accuracy",
    "fit",
    "recall",
    "precision",
    "accuracy",
    "average precision",
    "ROC AUC",
    "gap",
)


def model_cells(score: ModelScore) -> tuple[str, ...]:
    """Return the cells of a model's row, as `MODEL_HEADERS` names them."""
    if (counts := score.counts) is None:
        return (score.title, *["–"] * (len(MODEL_HEADERS) - 1))
    shares = (counts.recall, counts.precision, counts.accuracy, score.average_precision, score.roc_auc)
    return (
        score.title,
        f"{counts.balanced_accuracy:.3f}",
        "–" if score.fit_time_s is None else seconds_text(score.fit_time_s),
        *("–" if share is None else f"{share:.3f}" for share in shares),
        "–" if score.relative_gap is None else gap_text(score.relative_gap),
    )


def counts_text(score: ModelScore) -> str:
    """Return the confusion matrix of a model for two classes as a sentence, the positive class first."""
    counts = score.counts
    if counts is None or counts.k != 2:
        return ""
    found, other = counts.positive, 1 - counts.positive
    name, (right, missed), taken = counts.classes[found], counts.table[found, [found, other]], counts.table[other]
    alarms = right + taken[found]
    rare = f": 1 of {alarms / right:.0f} alarms is right" if right > 0 and 2 * right < alarms else ""
    return (
        f"Of the {right + missed} held-out rows of {name!r} it finds {right} and misses {missed}; "
        f"of the {taken.sum()} others it takes {taken[found]} for {name!r}{rare}."
    )


def constant_note(scores: Sequence[ModelScore]) -> str | None:
    """Return a sentence on the fitted models that answer one class to every row; None if there are none."""
    found: dict[str, list[str]] = {}
    for score in scores:
        if score.fit_time_s is not None and score.counts is not None:
            taken = score.counts.table.sum(axis=0)
            if taken.max() == score.counts.n:
                found.setdefault(score.counts.classes[int(taken.argmax())], []).append(score.title)
    parts = [
        f"{' and '.join(filter(None, ('; '.join(names[:-1]), names[-1])))} answer{'s' if len(names) == 1 else ''} "
        f"{label!r} to every row"
        for label, names in found.items()
    ]
    return f"{'; '.join(parts)}." if parts else None


def models_verdict(scores: Sequence[ModelScore], scoring: str, n: int) -> str:
    """Return the sentence that names the model to use: by the score, then by the time of its fit to ``n`` rows."""
    best = best_model(scores, scoring)
    if best is None or best.counts is None or best.fit_time_s is None:
        return "No verdict on models: none was fitted."
    counts, name = best.counts, score_title(scoring)
    if absent := [name for name, recall in zip(counts.classes, counts.recalls, strict=True) if recall is None]:
        return f"No verdict on models: none of the {counts.n} held-out rows is of class {absent[0]!r}."
    always = f"always answering {counts.classes[counts.majority]!r}"
    of = f" of {counts.classes[counts.positive]!r}" if scoring in OF_ONE_CLASS else ""
    plain = next((one for one in scores if one.fit_time_s is None and one.counts is not None), None)
    level = -1.0 if plain is None else plain.score(scoring)
    beats = counts.beats_majority if scoring == "balanced_accuracy" else best.score(scoring) > level
    if not beats and best.score(scoring) > level:
        return (
            f"These {counts.n} held-out rows ({int(counts.table[counts.positive].sum())} of "
            f"{counts.classes[counts.positive]!r}) cannot show that a model is better than {always}: {name} "
            f"{best.score(scoring):.3f} ± {best.error(scoring):.3f} against {max(level, 0.0):.3f}."
        )
    if not beats:
        return (
            f"By {name}{of} no model is better than {always}: {best.score(scoring):.3f} against {max(level, 0.0):.3f}, "
            f"on {counts.n} held-out rows."
        )
    beside = "" if plain is None else f" ({always}: {max(plain.score(scoring), 0.0):.3f})"
    same = [s for s in scores if s.class_weight == best.class_weight and s is not best and s.fit_time_s is not None]
    weights = "" if best.class_weight is None else f" with {best.class_weight} class weights"
    found = f"{name}{of} {best.score(scoring):.3f} ± {best.error(scoring):.3f} on {counts.n} held-out rows{beside}"
    fits = sorted((best, *same), key=lambda one: one.fit_time_s or 0.0)
    if len(fits) > 1 and len({f"{one.score(scoring):.3f}" for one in fits}) == 1:
        took = ", ".join(f"{one.model} {seconds_text(one.fit_time_s or 0.0)}" for one in fits)
        return f"Use SVC{weights}: {found}. Both packages fit this model to {n} rows and differ in time alone: {took}."
    others = "".join(f"; {one.model}: {one.score(scoring):.3f}, {seconds_text(one.fit_time_s or 0.0)}" for one in same)
    tied = ""
    if any(one.score(scoring) > best.score(scoring) for one in same):
        tied = f". The difference is within the standard error ({best.error(scoring):.3f}), so the faster fit is named"
    took = f"fitted to {n} rows in {seconds_text(best.fit_time_s)}"
    return f"Use {best.model}{weights}: {found}, {took}{others}{tied}."
