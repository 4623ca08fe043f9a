r"""Import of what only the extra `experiments` installs."""

from __future__ import annotations

import importlib
from types import ModuleType


class MissingExtraError(ImportError):
    r"""A module of the extra `experiments` is not installed."""


def require_extra(name: str) -> ModuleType:
    r"""Imports a module of the extra `experiments`.

    Args:
        name: The dotted name of the module.

    Returns:
        The module.

    Raises:
        MissingExtraError: If it is not installed; the message names the extra.

    Example:
        >>> require_extra("matplotlib").__name__
        'matplotlib'
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"Expected `{name}` to be installed with the extra `experiments`: "
            f"pip install 'botorch_risk[experiments]'. Got {error}."
        ) from error
