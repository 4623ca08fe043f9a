r"""How the site is built: `make docs`.

The sources are the repository itself, so that a link between two files leads to the same place on
the site, in a clone and on a forge. Nothing is fetched, when the site is built or when it is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "docs" / "extensions")]

import api_pages  # noqa: E402

import botorch_risk  # noqa: E402

project = "botorch_risk"
author = "The botorch_risk developers"
copyright = "The botorch_risk developers"
version = release = botorch_risk.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "docs/**.rst",
    "tutorials/*.ipynb",
    "bench/reproduction/**.md",
    "bench/studies/**.md",
    "bench/README.md",
    "bench/speed/README.md",
    "CHANGELOG.md",
    "bench/botorch_risk_bench/problems/weekly_closes.md",
    "README.md",
    "CONTRIBUTING.md",
]
exclude_patterns = [
    ".venv",
    "build",
    "dist",
    "results",
    "tests",
    "docs/_static",
    "docs/_build",
    "docs/root",
]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "docstrings",
    "name_links",
    "search_terms",
    "stored_tables",
]

# Every public name has to lead to its page. Other packages would need a network, and types of
# private modules have no page.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!botorch_risk(_bench)?\.).*"),
    (r"py:.*", r"botorch_risk(_bench)?\.([a-z_0-9]+\.){2,}_?[A-Z]\w+(\.[A-Z]\w+)?"),
]
suppress_warnings = ["myst.header"]  # stored tables begin with a heading of the third level

myst_enable_extensions = ["colon_fence", "dollarmath", "html_image"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the notebooks are stored with their outputs
nb_merge_streams = True
nb_code_prompt_show, nb_code_prompt_hide = "Show the code", "Hide the code"
copybutton_exclude = ".linenos, .gp, .go"

bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
bibtex_default_style = "plain"

default_role = "code"
autosummary_generate = False  # `api_pages` writes the pages, outside the sidebar
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autoclass_content = "both"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_maximum_signature_line_length = 88
viewcode_line_numbers = True

html_theme = "furo"
html_title = f"botorch_risk {release}"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_extra_path = ["root"]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "docs" / "_static" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": []}
mathjax_path = "mathjax/startup.js"
mathjax3_config = {
    "loader": {"load": ["core", "input/tex", "output/chtml", "a11y/assistive-mml"]},
    "chtml": {"scale": 0.88},
    "tex": {"packages": ["base", "ams", "newcommand", "noundefined"]},
}

api_pages.write(ROOT / "docs" / "api")
