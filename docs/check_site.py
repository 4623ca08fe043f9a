r"""Follows every link inside the built site: `python docs/check_site.py docs/_build/html`.

Nothing may be fetched from elsewhere to show a page, no link inside the site may lead nowhere, no
formula may be left as LaTeX in running text and no markup as it was written, no cell of a table may
end at an abbreviation as if it were a sentence, and every public name is a link to its page.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

LATEX = re.compile(r"\$\$|\\(?:frac|mathrm|sqrt|sum|text|begin|cdot)\b")
MARKUP = re.compile(r":[a-z]+(:[a-z]+)?:(?=`|\s|$)|``")
CUT = re.compile(r"<td><p>((?:(?!</?td).)*\b(?:Alg|App|Cor|Eqs?|Figs?|Secs?)\.)</p></td>")
NAME = re.compile(r"(?:\w+\.)*(\w+)(?:\(.*\))?", flags=re.DOTALL)
AS_IT_STANDS = {"code", "pre", "script", "style", "title"}
UNLINKED = {"a", "h1", "h2", "h3", "h4", "pre"}
VOID = {"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr", "path", "area"}


class Page(HTMLParser):
    r"""What a page holds: the names of its places, where it leads, what it loads, raw markup.

    Its `codes` are the pieces of code in running text that are no link.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cut: list[str] = [re.sub("<.*?>", "", each) for each in CUT.findall(text)]
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.latex: list[str] = []
        self.markup: list[str] = []
        self.codes: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        r"""Notes a name, a link, or what is loaded."""
        found = {name: value or "" for name, value in attributes}
        self.names |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(found["href"])
        elif "src" in found:
            self.loads.append(found["src"])
        if tag not in VOID:
            if tag == "code" and not UNLINKED & {each for each, _ in self._open}:
                self.codes.append("")
            hides = tag in AS_IT_STANDS or "math" in found.get("class", "").split()
            self._open.append((tag, hides))

    def handle_endtag(self, tag: str) -> None:
        r"""Leaves the element, and those inside it that were not closed."""
        while any(each == tag for each, _ in self._open):
            if self._open.pop()[0] == tag:
                break

    def handle_data(self, data: str) -> None:
        r"""Notes LaTeX and other markup in running text, and code."""
        tags = {each for each, _ in self._open}
        if "code" in tags and not UNLINKED & tags:
            self.codes[-1] += data
        if not {"pre", "script", "style", "title"} & tags and MARKUP.search(data):
            self.markup.append(data.strip())
        if LATEX.search(data) and not any(hides for _, hides in self._open):
            self.latex.append(data.strip())
        elif self._open and self._open[-1][1] and data.rstrip().endswith((r"\\]", r"\\)")):
            self.latex.append(data.strip())  # the closing mark is escaped, and nothing is typeset


def check(folder: Path) -> tuple[list[str], int, int]:
    r"""What is wrong with a site, and how many pages and links inside it were looked at."""
    folder = folder.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    public = {path.stem.rpartition(".")[2] for path in folder.glob("docs/api/objects/*.html")}
    public = {name for name in public if "_" in name or name != name.lower()}  # no mere words
    wrong, followed = [], 0
    for path, page in pages.items():
        here = path.relative_to(folder).as_posix()
        wrong += [f"{here} shows LaTeX: {each}" for each in page.latex]
        wrong += [f"{here} shows markup: {each}" for each in page.markup]
        wrong += [f"{here} cuts a sentence: {each}" for each in page.cut]
        own = path.stem.rpartition(".")[2]
        named = {match[1]: code for code in page.codes if (match := NAME.fullmatch(code.strip()))}
        wrong += [f"{here} does not link {named[name]}" for name in named.keys() & public - {own}]
        for link in [*page.links, *page.loads]:
            target, name = urldefrag(link)
            target = target.partition("?")[0]
            if re.match(r"[a-z]+:|//", target):
                if link in page.loads and not target.startswith("data:"):
                    wrong.append(f"{here} loads {link}")
                continue
            followed += 1
            reached = (path.parent / unquote(target)).resolve() if target else path
            if not reached.is_file():
                wrong.append(f"{here} leads to {link}, which is not there")
            elif name and reached in pages and unquote(name) not in pages[reached].names:
                wrong.append(f"{here} leads to {link}, which has no such place")
    return wrong, len(pages), followed


if __name__ == "__main__":
    wrong, num_pages, num_links = check(Path(sys.argv[1]))
    print("\n".join(wrong))
    print(f"{num_pages} pages, {num_links} links inside them, {len(wrong)} wrong")
    sys.exit(bool(wrong))
