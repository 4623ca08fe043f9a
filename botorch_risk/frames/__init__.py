r"""One experiment in plain tables: `SingleExperiment` in tensors, `FrameExperiment` in DataFrames.

`advise` takes the readings of any package.
"""

from .advise import Advice, advise
from .frame_experiment import FrameExperiment
from .single_experiment import SingleExperiment

__all__ = ["Advice", "FrameExperiment", "SingleExperiment", "advise"]
