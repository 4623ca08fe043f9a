r"""The site has a page for each public object of the plugin and of the bench."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_modules_that_the_index_names_have_a_page() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "extensions" / "api_pages.py"))["areas"]()
    assert {"engine", "strategies", "campaigns", "metrics", "problems", "reports"} <= pages.keys()
    assert "Campaign" in pages["campaigns"]
