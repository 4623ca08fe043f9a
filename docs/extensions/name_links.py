r"""Links every public name in prose, tables and code to its page of the API.

A name is a literal such as `ValueAtRisk`, `ValueAtRisk(0.3)` or `risk.ValueAtRisk`. A word of lower
case alone, such as `recommend`, is one only on a page whose code imports it, unless it is in
`NO_WORDS`. Where two modules export a name, the page's imports decide, and then the order of
`PREFERRED`. A name may break at its capitals and underscores, so that a table fits on a phone.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

NAME = re.compile(
    r"(?:botorch_risk(?:_bench|_testing)?\.)?((?:\w+\.)*\w+)(\(.*\))?", flags=re.DOTALL
)
IMPORT = re.compile(r"^\s*(?:>>> )?from (botorch_risk[\w.]*) import (\([^)]*\)|[^\n(]+)", re.M)
BLOCK = re.compile(r'<div class="highlight-(?:default|python|ipython3|diff).*?</pre>', re.DOTALL)
CODE = re.compile(r"<code>([^<]+)(?=</code>)")  # in a page's own HTML
CODE_ELEMENT = re.compile(r"(<code>[^<]+)</code>")
TOKEN = re.compile(r'(<span class="(?:n|nc|nf|nn)">)(\w+)(</span>)')
PRE = re.compile(r'(?<=<span class="pre">)[^<]+')
JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[_(=,/])(?=\w)|(?<=\.)(?=[A-Za-z])")
PREFERRED = ("papers", "strategies", "acquisition", "baselines")
NO_WORDS = {"gchk", "rahbo", "robust", "truvar"}  # `robust` is always the function
KINDS = {"class", "function", "exception", "method", "property", "attribute"}


def imported(texts: list[str]) -> dict[str, str]:
    r"""The modules that names are imported from in code."""
    found = {}
    for module, names in IMPORT.findall("\n".join(texts)):
        for name in re.findall(r"\w+", names.partition("#")[0].replace("\n", " ")):
            found[name] = module
    return found


def is_a_name(text: str, imports: dict[str, str]) -> bool:
    r"""Whether a literal is long enough, or imported, to be a name and no word."""
    name, call = NAME.fullmatch(text).groups()  # type: ignore[union-attr]
    known = name in imports or name in NO_WORDS
    return bool(call or "_" in name or "." in name or name != name.lower() or known)


def resolve(text: str, known: dict[str, list[str]], imports: dict[str, str]) -> str | None:
    r"""The full name of what a literal names, if it is public.

    Args:
        text: Of the literal.
        known: Full names by the name alone, and by class and member.
        imports: Modules by the names that the page imports from them.
    """
    match = NAME.fullmatch(text.strip())
    if match is None or not is_a_name(text.strip(), imports):
        return None
    *parents, name = match[1].split(".")
    key = f"{parents[-1]}.{name}" if parents and parents[-1] != parents[-1].lower() else name
    found = known.get(key, [])
    found = [each for each in found if f".{each}".endswith(f".{match[1]}")] or found

    def order(each: str) -> tuple[bool, int]:
        area = each.split(".")[1]
        place = PREFERRED.index(area) if area in PREFERRED else len(PREFERRED)
        return not each.startswith(imports.get(key, "?")), place

    return min(found, key=order, default=None)


def public_names(objects: dict[str, Any]) -> dict[str, list[str]]:
    r"""The full names of what has a page, by the name alone, and by class and member."""
    found: dict[str, list[str]] = {}
    for name, entry in objects.items():
        if entry.objtype not in KINDS or "/objects/" not in entry.docname:
            continue
        depth = 2 if entry.objtype in ("method", "property", "attribute") else 1
        found.setdefault(".".join(name.split(".")[-depth:]), []).append(name)
    return found


class NameLinks(SphinxPostTransform):
    r"""Turns literals into links, and notes what the code of a page imports."""

    default_priority = 5
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        r"""Works on one page."""
        objects = self.env.get_domain("py").objects  # type: ignore[attr-defined]
        known = public_names(objects)
        here = self.env.docname
        imports = imported([each.astext() for each in self.document.findall(nodes.literal_block)])
        targets = {}
        for name in imports:
            full = resolve(name, known, imports)
            if full is not None and objects[full].docname != here:
                targets[name] = (objects[full].docname, objects[full].node_id, full)
        self.app.name_links[here] = targets  # type: ignore[attr-defined]
        for html in self.document.findall(nodes.raw):
            for text in CODE.findall(html.astext()):
                full = resolve(text, known, imports)
                if full is not None:
                    targets[f"<code>{text}"] = (objects[full].docname, objects[full].node_id, full)
        for literal in list(self.document.findall(nodes.literal)):
            if _within(literal, nodes.reference, nodes.title):
                continue
            full = resolve(literal.astext(), known, imports)
            if full is None or objects[full].docname == here:
                continue
            entry = objects[full]
            link = make_refnode(
                self.app.builder, here, entry.docname, entry.node_id, literal.deepcopy(), full
            )
            literal.replace_self(link)


def _within(node: Any, *kinds: type) -> bool:
    while node is not None:
        if isinstance(node, kinds):
            return True
        node = node.parent
    return False


def _link_code(app: Any, pagename: str, template: str, context: dict[str, Any], tree: Any) -> None:
    r"""Links the names that a page imports in its highlighted code."""
    targets = app.name_links.get(pagename)
    if not targets:
        return

    def linked(key: str, html: str) -> str:
        if key not in targets:
            return html
        page, place, title = targets[key]
        uri = f"{app.builder.get_relative_uri(pagename, page)}#{place}"
        return f'<a href="{uri}" title="{title}">{html}</a>'

    def of_block(block: re.Match[str]) -> str:
        return TOKEN.sub(lambda token: linked(token[2], token[0]), block[0])

    body = BLOCK.sub(of_block, context["body"])
    context["body"] = CODE_ELEMENT.sub(lambda code: linked(code[1], code[0]), body)


def _break_names(
    app: Any, pagename: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    r"""Marks where a long name may be broken."""
    if "body" in context:
        context["body"] = PRE.sub(lambda text: JOINT.sub("<wbr>", text[0]), context["body"])


def setup(app: Any) -> dict[str, Any]:
    r"""After every page is read, when all public names are known."""
    app.name_links = {}
    app.add_post_transform(NameLinks)
    app.connect("html-page-context", _link_code)
    app.connect("html-page-context", _break_names, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": False, "version": "1"}
