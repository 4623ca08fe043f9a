r"""One experiment with plain tables: `SingleExperiment` of numbers, `FrameExperiment` of names.

`advise` takes the readings of any package.
"""

from .advise import Advice, advise
from .frame_experiment import FrameExperiment
from .single_experiment import SingleExperiment

__all__ = ["Advice", "FrameExperiment", "SingleExperiment", "advise"]
