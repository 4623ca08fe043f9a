r"""Files that are written completely or not at all."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    r"""A path to write to, which takes the place of a file unless an error is raised.

    The permissions of the file and links to it stay. What is no file, such as `/dev/stdout`, is
    written directly.
    """
    if Path(path).exists() and not Path(path).is_file():
        yield Path(path)
        return
    target = Path(path).resolve()
    written = target.with_name(f"{target.name}.{uuid.uuid4().hex}.writing")
    try:
        yield written
        if target.exists():
            shutil.copymode(target, written)
        written.replace(target)
    finally:
        written.unlink(missing_ok=True)
