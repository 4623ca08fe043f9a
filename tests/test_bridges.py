r"""Each recipe of docs/bridges.md runs as it stands, if its package is installed."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # of those packages and what they import
PAGE = Path(__file__).parents[1] / "docs" / "bridges.md"
TITLE, *SECTIONS = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
PACKAGES = {
    "BayBE's tables": ("baybe",),
    "BoFire's domains": ("bofire",),
    "A sampler for Optuna, in OptunaHub's form": ("optuna", "optunahub"),
    "Advice on a study of Optuna": ("optuna",),
    "Xopt's contextual variables": ("xopt",),
}


def fences(section: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


def test_each_recipe_has_a_row_of_versions_and_says_what_it_prints() -> None:
    assert [section.partition("\n")[0] for section in SECTIONS] == list(PACKAGES)
    rows = [row for row in TITLE.splitlines() if re.match(r"\| \w.*\d\.\d", row)]
    assert len(rows) == len(SECTIONS)
    assert all(len(fences(section, "text")) == 1 for section in SECTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS, ids=list(PACKAGES))
def test_a_recipe_prints_what_the_page_says(
    section: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in PACKAGES[section.partition("\n")[0]]:
        pytest.importorskip(package)
    found: dict[str, Any] = {"__name__": "guide", "registry": str(tmp_path)}
    blocks = fences(section, "python")
    if "optunahub" in section:
        package = tmp_path / "samplers" / "risk_averse"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(blocks[0], encoding="utf-8")
    for block in blocks:  # pydantic reads annotations: not as strings
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), found)
    assert capsys.readouterr().out == fences(section, "text")[0]
