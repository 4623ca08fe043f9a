r"""What a page is found by first: the words that a reader types, as main entries of its index."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes

TERMS = {
    "docs/gpu": ("CUDA",),
    "docs/level_sets": ("level set", "threshold"),
    "docs/minimisation": ("minimise", "minimize"),
    "docs/mixed_spaces": ("category", "integer"),
    "docs/mixtures": ("linear constraint", "mixture"),
    "docs/own_csv": ("CSV", "DataFrame", "missing value", "pandas"),
    "docs/risk_measures": ("conditional value-at-risk", "CVaR", "value-at-risk", "worst case"),
    "docs/stopping": ("stop", "when to stop"),
}


def _add_entries(app: Any, doctree: nodes.document) -> None:
    place = "found-by"
    entries = [("single", term, place, "main", None) for term in TERMS.get(app.env.docname, ())]
    if entries:
        doctree.insert(0, [addnodes.index(entries=entries), nodes.target(ids=[place])])


def setup(app: Any) -> dict[str, Any]:
    r"""When a page is read, before its index is collected."""
    app.connect("doctree-read", _add_entries, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
