r"""One experiment with plain tables: `SingleExperiment` of numbers, `FrameExperiment` of names."""

from .frame_experiment import FrameExperiment
from .single_experiment import SingleExperiment

__all__ = ["FrameExperiment", "SingleExperiment"]
