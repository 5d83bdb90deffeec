"""The tutorial's outputs are those of its code, its numbers stand in its text, and its ten words are explained."""

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "first-quantum-svm.md"
TEXT = PAGE.read_text(encoding="utf-8")
NUMBER = re.compile(r"(?<![\w.*])\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?(?![\w*])")
#: Counts depend on the version of Aer: excesses and gaps of sampled rows may differ by this factor.
MAX_RATIO = 4.0
TERMS = ("qubit", "circuit", "Depth", "two-qubit", "device", "gap", "excess", "shot", "floor", "Controls", "refinement")


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each block prints; the page's files are written to an empty folder."""
    pytest.importorskip("matplotlib", reason="the page draws a run")
    names, found, home = {"__name__": "page"}, [], Path.cwd()
    os.chdir(tmp_path_factory.mktemp("page"))
    for block in re.findall(r"```\{testcode\}\n(.*?)```", TEXT, flags=re.DOTALL):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block, str(PAGE), "exec"), names)
        found.append(out.getvalue())
    os.chdir(home)
    return found


def test_the_outputs_are_those_of_the_code(printed):
    """The same lines and words; the same numbers, up to the noise of shots and the last bits of round-off."""
    shown = re.findall(r"```\{testoutput\}\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(shown) == len(printed) == 4
    for expected, found in zip(shown, printed, strict=True):
        shown_lines, found_lines = (sorted(text.splitlines(), key=_words) for text in (expected, found))
        assert list(map(_words, shown_lines)) == list(map(_words, found_lines))  # noise may change the order of rows
        pairs = zip(NUMBER.findall(" ".join(shown_lines)), NUMBER.findall(" ".join(found_lines)), strict=True)
        for a, b in pairs:
            x, y = (float(number.replace(",", "")) for number in (a, b))
            assert x == y or max(x, y) < 1e-11 or max(x, y) / max(min(x, y), 1e-300) < MAX_RATIO, (a, b)


def _words(text):
    return re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip()


def test_every_number_of_the_first_screens_is_explained_in_the_text():
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    numbers = ["4.0e-07", "8e-13", "14", "16", "26", "1e-6", "7.2e-05", "7.3e-02", "0.87", "0.049", "0.000063"]
    for number in [*numbers, "410 000", "41", "0.57"]:
        assert re.search(rf"(?<![\w.]){re.escape(number)}(?!\w)", prose), number
    for column in ("raw gap", "excess", "fidelity", "null", "control:random", "classical-sampler", "refined gap"):
        assert column in prose.lower()


def test_the_words_are_in_bold_where_they_first_stand():
    bold = " ".join(re.findall(r"\*\*([^*]+)\*\*", TEXT))
    assert all(term in bold for term in TERMS)
