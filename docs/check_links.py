"""Every link of a built site leads to a page, and to a place in it; titles differ, and what axe-core asks of pages that
needs no browser is there: `python docs/check_links.py site`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the places in it."""

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


def broken(site: Path) -> list[str]:
    """Links within the site that lead nowhere, each with the page it is on."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
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


#: What each page must not have, and what is missing there.
FAULTS = {
    r"<aside(?![^>]*aria-label)": "an aside without a name",
    r'role="heading"(?![^>]*aria-level)': "a heading without its level",
    r'<div class="highlight"><pre>': "code that keys cannot reach",
    r'<div class="table-wrapper': "a table that keys cannot reach",
    r"<th[^>]*>\s*(?:<p>\s*</p>)?\s*</th>": "a column without a name",
    r"<summary[^>]*aria-label": "a summary with another name than it shows",
    r"<img(?![^>]*\balt=)": "a picture without words",
}
#: Pages that are made of no text of ours.
WITHOUT_TEXT = {"search.html", "genindex.html"}


def unheard(site: Path) -> list[str]:
    """What a page lacks for those who hear it, have no mouse, or see its title among others'."""
    texts = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    titles = {name: "".join(re.findall(r"<title>(.*?)</title>", text, flags=re.DOTALL)) for name, text in texts.items()}
    several = {title for title, count in Counter(titles.values()).items() if count > 1}
    found = [f"{name}: the title {title!r} is not its own" for name, title in titles.items() if title in several]
    for name, text in texts.items():
        found += [f"{name}: {fault}" for pattern, fault in FAULTS.items() if re.search(pattern, text)]
        if name not in WITHOUT_TEXT and '<meta name="description" content=' not in text:
            found.append(f"{name}: no description")
    return sorted(found)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if not (folder / "index.html").exists():
        raise SystemExit(f"{folder} is no built site: it has no index.html")
    lost = broken(folder) + unheard(folder)
    print("\n".join(lost) or f"{folder}: every link leads somewhere, and every page can be heard")
    sys.exit(bool(lost))
