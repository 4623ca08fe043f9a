r"""Import modules that only an extra installs."""

import importlib
from types import ModuleType


class MissingExtraError(ImportError):
    r"""A module of an extra is not installed."""


def require_extra(name: str, requirement: str = "botorch_risk[plots]") -> ModuleType:
    r"""Import a module of an extra.

    Raises:
        MissingExtraError: If it is not installed; the message gives the command that installs it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"Expected `{name}` to be installed by pip install '{requirement}'. Got {error}."
        ) from error
