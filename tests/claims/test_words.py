"""The words of the glossary's left column in CONTRIBUTING.md are not used.

It is a smoke alarm; it does not replace reading.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The engineering log tells what was, in the words of then.
HISTORY = ROOT / "docs" / "history.md"
#: Pages of kept results: a benchmark's own lines.
KEPT = ROOT / "docs" / "reference" / "papers.md"
#: Where a word of the table is a term of the field: the ecology paper's, and the settling time of a circuit.
TERMS = {
    "newcomer": re.compile("invasion|ecolog|eco_|survivor|ecosystem"),
    "settle": re.compile("analog"),
}
#: Users and devices are asked; no variable is.
ASKED_RIGHTLY = re.compile(r"\b(users?|devices?|backends?|machines?|clouds?|vendors?|provider)\b", re.IGNORECASE)


def _glossary():
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## Words\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")][1:]
    words = [word.strip() for row in rows for word in re.sub(r"\(.*?\)| … that", "", row).split(",")]
    assert len(words) > 15
    return words


def _texts():
    kinds = ("*.py", "*.pyx", "*.pxd", "*.h", "*.md")
    found = [path for folder in ("src", "docs") for kind in kinds for path in (ROOT / folder).rglob(kind)]
    assert len(found) > 200
    return [path for path in (*found, ROOT / "README.md", ROOT / "CHANGELOG.md") if path not in (HISTORY, KEPT)]


def _is_right(word, path, line):
    if word in TERMS:
        return bool(TERMS[word].search(path.name) or TERMS[word].search(line))
    return word == "asked" and bool(ASKED_RIGHTLY.search(line))


def test_no_word_of_the_glossarys_left_column_is_used():
    patterns = {word: re.compile(rf"(?<![a-z]){re.escape(word)}s?(?![a-z])", re.IGNORECASE) for word in _glossary()}
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for word, pattern in patterns.items()
        if pattern.search(line) and not _is_right(word, path, line)
    ]
    assert found == []
