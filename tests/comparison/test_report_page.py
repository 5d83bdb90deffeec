"""The report as a page: read on a phone and on a screen, by light and by night, by eye and by ear."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dualflow.report import Comparison, Row, Section
from dualflow.report.html import chart, render
from dualflow.report.scores import ClassCounts, ModelScore

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
#: axe-core's `axe.min.js`, if it is at hand (`npm install axe-core`).
AXE = os.environ.get("AXE_CORE")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")


def row(solver: str, role: str, device: str | None, number: int, **more) -> Row:
    figures = {"qubits": 7, "circuits": 2_010_000 + number, "shots": 900_000_000, "excess": 1e-3} if device else {}
    figures |= {"raw_gap": 10.0 ** -(number % 9), "wall_time_s": 0.002 * (1 + number % 5), "accuracy": 0.9}
    return Row(
        "hinge", solver, role, device, status="TIME_LIMIT", shot_floor=2e-3 if device else None, **figures | more
    )


def models() -> tuple[ModelScore, ...]:
    """Scores of models, with class names as long as they come, and one that was not fitted."""
    classes = ["no", "a class of somebody with a long name"]
    truth = np.repeat([0, 1], [900_000, 100_000])
    counts = [ClassCounts.of(truth, predicted, classes) for predicted in (np.zeros_like(truth), truth)]
    return (
        ModelScore("majority (no)", counts=counts[0]),
        ModelScore("dualflow SVC", "balanced", counts[1], 0.1, 1e-9),
        ModelScore("scikit-learn SVC", "balanced", reason="not fitted: it takes about a day"),
    )


@pytest.fixture(scope="module")
def page() -> str:
    """A report of two sections, with names as long as they come, crowds of equal figures, and reasons."""
    devices = ("pennylane:lightning.qubit", "control:classical-sampler", "ibm:a_machine_with_a_very_long_name")
    roles = ("quantum", "control", "emulated")
    rows = [
        row(name, "classical", None, k) for k, name in enumerate(["working-set", "smo", "cvxopt", "frank-wolfe"] * 3)
    ]
    rows += [
        row(name, role, device, k)
        for k, (name, (device, role)) in enumerate(
            product(
                ("hamiltonian-schrodingerisation", "a_solver_of_somebody_without_hyphens"),
                zip(devices, roles, strict=True),
            )
        )
    ]
    rows.append(
        Row("hinge", "hamiltonian-lchs", "quantum", status="DOES NOT APPLY", reason="it takes 16 " + "points " * 40)
    )
    made = Section(
        "hinge", "C-SVM, hinge loss, C = 1", 64, "box with equality", 1e-6, None, "none: a test", tuple(rows)
    )
    found = Comparison(
        (made, replace(made, title="the same again")),
        {
            "tol": 1e-6,
            "a setting with a long name": "x" * 90,
            "next": "dualflow train data.csv " + "--drop column " * 9,
        },
        {"dualflow": "0"},
        models=models(),
    )
    return render(found)


# --- what needs no browser -----------------------------------------------------------------------------


def colours(text: str) -> dict[str, dict[str, str]]:
    """The variables of the light and the dark scheme."""
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    blocks = re.findall(r":root \{(.*?)\}", style, re.S)
    assert len(blocks) == 2
    return {
        name: dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for name, block in zip(("light", "dark"), blocks, strict=True)
    }


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    low, high = sorted(map(luminance, (one, two)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_of_contrast():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out(page, scheme):
    found = colours(page)[scheme]
    for name, ground in product(("ink", "soft", "control", "bad"), ("paper", "band")):
        assert contrast(found[name], found[ground]) >= 4.5, (name, ground)
    for name in ("classical", "quantum", "control"):
        assert contrast(found[name], found["paper"]) >= 3, name


def test_what_is_wide_scrolls_by_itself_and_can_be_reached_by_keys(page):
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    body = page.split("<body>")[1]
    inside = re.findall(r'<div class="scroll" tabindex="0" role="region" aria-label="[^"]+">\s*<(table|svg)', body)
    assert len(inside) == len(re.findall(r"<(?:table|svg)\b", body)) == 8
    labels = re.findall(r'role="region" aria-label="([^"]+)"', body)
    assert {label.split(",")[0] for label in labels} == {"Scores", "Confusion", "Results", "Chart", "Quantum resources"}


def test_the_verdict_comes_first_and_every_header_has_its_scope(page):
    body = page.split("<body>")[1]
    assert '<html lang="en">' in page
    assert body.index("<h1>") < body.index('class="verdict">Use dualflow SVC') < body.index("<table")
    heads = re.findall(r"<th\b[^>]*>", body)
    assert len(heads) > 50
    assert all('scope="col"' in head or 'scope="row"' in head for head in heads)
    assert body.count("<caption>") == body.count("<table")
    pictures = re.findall(r"<svg\b[^>]*>", body)
    assert all('role="img"' in picture and "aria-labelledby=" in picture for picture in pictures)
    levels = [int(level) for level in re.findall(r"<h([1-6])\b", body)]
    assert levels[0] == 1
    assert max(np.diff(levels)) <= 1
    assert "not fitted: it takes about a day" in body


def test_names_of_levels_and_lines_to_names_lie_on_nothing():
    rng = np.random.default_rng(0)
    gaps, times = 10 ** rng.uniform(-6, -1, 50), 10 ** rng.uniform(-3, -1.5, 50)
    rows = [row(f"solver-{k}", "classical", None, k, raw_gap=gaps[k], wall_time_s=times[k]) for k in range(50)]
    rows += [row("at-the-edge", "quantum", "aer", k, raw_gap=2e-3 * 1.3**k, wall_time_s=0.085) for k in range(5)]
    drawn = chart(Section("hinge", "x", 64, "box", 1e-6, None, "none", tuple(rows)), 1e-6)
    marks = [(mark.x - 5, mark.y - 5, mark.x + 5, mark.y + 5) for mark in drawn.marks]
    assert {level.label for level in drawn.lines} == {"tolerance", "least shot floor"}
    names = [
        (level.text_x - 7 * len(level.label), level.text_y - 9, level.text_x, level.text_y + 2) for level in drawn.lines
    ]
    labels = {}
    for k, mark in enumerate(drawn.marks):
        if mark.label:
            left = mark.text_x - (0 if mark.anchor == "start" else 7 * len(mark.label))
            labels[k] = (left, mark.text_y - 6, left + 7 * len(mark.label), mark.text_y + 6)
    assert len(labels) > 10
    for name in names:
        assert not any(overlap(name, other) for other in (*marks, *labels.values()))
    led = [k for k in labels if drawn.marks[k].text_y != drawn.marks[k].y]
    assert len(led) > 3
    for k in led:
        mark, others = drawn.marks[k], [*marks[:k], *marks[k + 1 :], *(labels[j] for j in labels if j != k), *names]
        for share in np.linspace(0.0, 0.95, 20):
            x, y = mark.x + share * (mark.text_x - mark.x), mark.y + share * (mark.text_y - mark.y)
            assert not any(overlap((x - 0.1, y - 0.1, x + 0.1, y + 0.1), other) for other in others), mark.title


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])


# --- in a browser --------------------------------------------------------------------------------------


class Browser:
    """Chromium without a window, spoken to through a pair of pipes (its DevTools protocol), with nothing installed."""

    def __init__(self, folder: Path) -> None:
        reads, their_writes = os.pipe()
        their_reads, writes = os.pipe()
        # It reads from 3 and writes to 4; these may be each other's numbers here.
        moves = (their_reads, 103), (their_writes, 104), (103, 3), (104, 4)
        launch = f"import os, sys; [os.dup2(*move) for move in {moves}]; os.execv(sys.argv[1], sys.argv[1:])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", launch, CHROMIUM, *OPTIONS, f"--user-data-dir={folder}"],
            pass_fds=(their_reads, their_writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_reads), os.close(their_writes)
        self.reads, self.writes = os.fdopen(reads, "rb", buffering=0), os.fdopen(writes, "wb", buffering=0)
        self.number, self.rest = 0, b""

    def __call__(self, method: str, session: str | None = None, **parameters) -> dict:
        """A command's result; it must come within a minute."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        self.writes.write(json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while True:
            while b"\0" not in self.rest:
                assert select.select([self.reads], [], [], max(0.0, end - time.monotonic()))[0], f"{method}: no answer"
                more = os.read(self.reads.fileno(), 1 << 16)
                assert more, f"{method}: Chromium has ended"
                self.rest += more
            text, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reads.close(), self.writes.close()


#: What is found of the report as it lies there.
LOOK = """
(() => {
  const width = innerWidth, all = [...document.querySelectorAll("main *")], brief = e => e.outerHTML.slice(0, 80);
  const place = table => [...table.tHead.rows[0].cells].findIndex(head => head.textContent.trim() === "time");
  const table = [...document.querySelectorAll("table")].find(table => place(table) >= 0);
  const heads = [...table.tHead.rows[0].cells], at = place(table);
  heads[at].querySelector("button").click();
  return {
    width, scrollWidth: document.documentElement.scrollWidth,
    beyond: all.filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > width + 1).map(brief),
    cut: all.filter(e => ["hidden", "clip"].includes(getComputedStyle(e).overflowX)
      && e.scrollWidth > e.clientWidth + 1).map(brief),
    captions: [...document.querySelectorAll("caption > span")].map(e => e.getBoundingClientRect().right - width),
    commands: [...document.querySelectorAll("pre")].map(e => e.scrollWidth - e.clientWidth),
    pinned: [...document.querySelectorAll(".scroll")].filter(box => box.querySelector("table")).map(box => {
      box.scrollLeft = 200;
      const left = box.getBoundingClientRect().left, first = line => line.cells[0].getBoundingClientRect().left;
      return [box.scrollLeft, ...[...box.querySelectorAll("tr")].map(line => Math.round(first(line) - left))];
    }),
    sorted: [...table.tBodies[0].rows].map(line => line.cells[at]).filter(cell => cell && cell.dataset.value)
      .map(cell => Number(cell.dataset.value)),
    ground: getComputedStyle(document.body).backgroundColor,
  };
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium: put one on the path, or its path into CHROMIUM")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module", params=product([400, 1400], ["light", "dark"]), ids=lambda it: f"{it[0]}-{it[1]}")
def shown(request, browser, page, tmp_path_factory):
    """The report in a window of some width, by light or by night: its width, the scheme, and a way to ask it."""
    width, scheme = request.param
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page, encoding="utf-8")
    target = browser("Target.createTarget", url="about:blank")["targetId"]
    session = browser("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser("Emulation.setDeviceMetricsOverride", session, **size)
    scheme_of = [{"name": "prefers-color-scheme", "value": scheme}]
    browser("Emulation.setEmulatedMedia", session, features=scheme_of)
    browser("Page.navigate", session, url=file.as_uri())

    def ask(script: str):
        found = browser("Runtime.evaluate", session, expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    while ask("document.readyState + !!document.querySelector('main')") != "completetrue":
        time.sleep(0.05)
    yield width, scheme, ask
    browser("Target.closeTarget", targetId=target)


@pytest.mark.slow
def test_in_chromium_nothing_is_cut_and_the_solver_stays(shown):
    width, scheme, ask = shown
    found = ask(LOOK)
    assert found["width"] == width
    assert found["scrollWidth"] <= width
    assert found["beyond"] == []
    assert found["cut"] == []
    assert len(found["captions"]) >= 4
    assert max(found["captions"]) <= 0
    assert found["commands"] == [0]
    for scrolled, *lefts in found["pinned"]:
        assert scrolled > 0 or width > 1000
        assert set(lefts) == {0}
    assert found["sorted"] == sorted(found["sorted"])
    assert len(set(found["sorted"])) > 3
    assert (found["ground"] == "rgb(23, 25, 28)") == (scheme == "dark")


@pytest.mark.slow
def test_in_chromium_recall_and_precision_are_in_view(shown):
    width, _, ask = shown
    ends = dict(
        ask(
            """[...document.querySelectorAll("table.models thead th")].map(head => [head.textContent.trim(),
            Math.max(...[...document.querySelectorAll("table.models tr")].map(line =>
            line.cells[head.cellIndex].getBoundingClientRect().right))])"""
        )
    )
    assert {"recall", "precision", "average precision", "ROC AUC"} < set(ends)
    assert max(ends["recall"], ends["precision"]) <= width


@pytest.mark.slow
@pytest.mark.skipif(AXE is None, reason="no axe-core: put the path of its axe.min.js into AXE_CORE")
def test_axe_core_finds_nothing(shown):
    _, _, ask = shown
    ask(Path(AXE).read_text(encoding="utf-8") + "; 0")
    passed, violated = ask(
        "axe.run().then(found => [found.passes.length, found.violations.map(v => [v.id, v.nodes[0].html])])"
    )
    assert passed > 20
    assert violated == []
