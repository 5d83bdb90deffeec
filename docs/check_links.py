"""Check a built site: `python docs/check_links.py site`.

Every link must lead to a page and to a place in it, every title must be unique, the rules of axe-core that need no
browser must hold, and a search for a user's word must find its page.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def pages_of(site: Path) -> list[Path]:
    """The pages of a site, without the theme's templates."""
    return [path for path in site.rglob("*.html") if "_static" not in path.parts]


def broken(site: Path) -> list[str]:
    """Links within the site without a target, each with its page."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in pages_of(site)}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            place = unquote(parts.fragment)
            if not target.exists() or (place and target in pages and place not in pages[target].places):
                found.append(f"{path.relative_to(site.resolve())}: {link}")
    return sorted(set(found))


#: Patterns that no page may contain, and the fault that each shows.
FAULTS = {
    r"<aside(?![^>]*aria-label)": "an aside without a name",
    r'<(?![^>]*aria-level)[^>]*role="heading"': "a heading without its level",
    r'<div class="highlight"><pre>': "code that keys cannot reach",
    r'<div class="pst-scrollable-table-container">': "a table that keys cannot reach",
    r"<th[^>]*>\s*(?:<p>\s*</p>)?\s*</th>": "a column without a name",
    r'<summary[^>]*aria-label[^>]*>(?!<span class="toctree-toggle")': "a summary with another name than it shows",
    r'<summary><span class="toctree-toggle"': "a button without a name",
    r"<img(?![^>]*\balt=)": "a picture without words",
}
#: Pages without text of our own.
WITHOUT_TEXT = {"search.html", "genindex.html"}


def accessibility_faults(site: Path) -> list[str]:
    """Faults of pages for readers with a screen reader or without a mouse, and titles that occur twice."""
    texts = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in pages_of(site)}
    titles = {name: "".join(re.findall(r"<title>(.*?)</title>", text, flags=re.DOTALL)) for name, text in texts.items()}
    several = {title for title, count in Counter(titles.values()).items() if count > 1}
    found = [f"{name}: the title {title!r} is not its own" for name, title in titles.items() if title in several]
    for name, text in texts.items():
        found += [f"{name}: {fault}" for pattern, fault in FAULTS.items() if re.search(pattern, text)]
        if name not in WITHOUT_TEXT and '<meta name="description" content=' not in text:
            found.append(f"{name}: no description")
    return sorted(found)


#: Words that users search for, and the page that each must find.
SEARCHES = {
    "imbalanced": "how-to/imbalanced",
    "probability": "how-to/probabilities",
    "slow": "how-to/speed",
    "outlier": "how-to/anomalies",
    "unlearn": "how-to/forget",
    "million": "how-to/large",
    "compiler": "install",
}


def unfound_words(site: Path, searches: dict[str, str]) -> list[str]:
    """Words whose page is not in the index of the search, as its stemmer writes them."""
    from snowballstemmer import stemmer

    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    found = []
    for word, page in searches.items():
        [stem] = stemmer("porter").stemWords([word])
        hits = [index[kind].get(stem, []) for kind in ("terms", "titleterms")]
        numbers = {number for hit in hits for number in (hit if isinstance(hit, list) else [hit])}
        if page not in {index["docnames"][number] for number in numbers}:
            found.append(f"search.html: {word!r} does not find {page}")
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if not (folder / "index.html").exists():
        raise SystemExit(f"{folder} is no built site: it has no index.html")
    faults = broken(folder) + accessibility_faults(folder) + unfound_words(folder, SEARCHES)
    print("\n".join(faults) or f"{folder}: no broken link, no fault of accessibility, every word is found")
    sys.exit(bool(faults))
