r"""After `pytest --nbmake --overwrite`, notebooks are small and name no machine; thumbnails too."""

import base64
import io
from pathlib import Path

import nbformat
import pytest
from PIL import Image

THUMBNAILS = Path(__file__).parents[1] / "docs" / "thumbnails"


def with_palette(png: str) -> str:
    r"""A picture in at most 256 colours, which takes about half of the bytes."""
    picture = Image.open(io.BytesIO(base64.b64decode(png)))
    if picture.mode == "P":
        return png
    small = io.BytesIO()
    colours = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    colours.save(small, format="png", optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")


def write_thumbnail(path: Path, notebook: nbformat.NotebookNode) -> None:
    r"""Writes the first picture of a notebook, in small, for the page that lists them."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    png = next(
        output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})
    )
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.thumbnail((640, 240))
    THUMBNAILS.mkdir(exist_ok=True)
    picture.quantize(64, dither=Image.Dither.NONE).save(
        THUMBNAILS / f"{path.stem}.png", format="png", optimize=True
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    r"""Removes timings and the kernel's version from the notebooks that have just been run."""
    if not getattr(session.config.option, "overwrite", False):
        return
    for path in {Path(item.path) for item in session.items if Path(item.path).suffix == ".ipynb"}:
        notebook = nbformat.read(path, as_version=4)
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                if "image/png" in data:
                    data["image/png"] = with_palette(data["image/png"])
        nbformat.write(notebook, path)
        write_thumbnail(path, notebook)
