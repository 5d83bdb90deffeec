"""Every link of a built site leads to a page, and to a place in it: `python docs/check_links.py site`."""

from __future__ import annotations

import sys
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


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if not (folder / "index.html").exists():
        raise SystemExit(f"{folder} is no built site: it has no index.html")
    lost = broken(folder)
    print("\n".join(lost) or f"{folder}: every link leads somewhere")
    sys.exit(bool(lost))
