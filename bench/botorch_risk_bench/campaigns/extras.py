r"""The extras that a campaign needs are there before its first round."""

import importlib.util

from botorch_risk.extras import MissingExtraError
from botorch_risk_bench.campaigns.description import Campaign


def check_extras(campaign: Campaign) -> None:
    r"""Check that the modules of extras that problems and strategies import are installed.

    Raises:
        MissingExtraError: If one is not; the message says who needs it and how to install it.
    """
    for series in campaign.spelled_out():
        for name in series.experiments:
            extras = campaign.definition(name, {}).extras
            for part in ("problem", *series.strategies):
                for module, requirement in extras.get(part, ()):
                    if importlib.util.find_spec(module) is None:
                        who = name if part == "problem" else f"{name}, {part}"
                        raise MissingExtraError(
                            f"Expected `{module}`, for {who}, to be installed by "
                            f"pip install '{requirement}'. Got no such module."
                        )
