r"""After `pytest --nbmake --overwrite`, no notebook says when and on which machine it was run."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    r"""Removes timings and the kernel's version from the notebooks beside this file."""
    if not getattr(session.config.option, "overwrite", False):
        return
    for path in Path(__file__).parent.glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        nbformat.write(notebook, path)
