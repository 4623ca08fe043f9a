r"""Files that are written completely or not at all."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    r"""A path to write to, which replaces a file unless an error is raised.

    The folder is made if it is missing. The permissions of the file and links to it stay. What is
    no file, such as `/dev/stdout`, is written directly.
    """
    if Path(path).exists() and not Path(path).is_file():
        yield Path(path)
        return
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    written = target.with_name(f"{target.name}.{uuid.uuid4().hex}.writing")
    try:
        yield written
        if target.exists():
            shutil.copymode(target, written)
        written.replace(target)
    finally:
        written.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    r"""Write a whole text file, or leave the file as it was."""
    with replacing(path) as written:
        written.write_text(text, encoding="utf-8")
