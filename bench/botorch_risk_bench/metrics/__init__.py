r"""Regret and run lengths, statistics over replicates, level sets and their scores."""

from .intervals import (
    INTERVAL,
    MeanAndStandardError,
    RatioOfMeans,
    binomial_interval,
    format_with_error,
    mean_and_standard_error,
    median,
    note_on_comparisons,
    paired_difference,
    pooled_difference,
    ratio_of_means,
)
from .level_sets import (
    LevelSets,
    LevelSetScores,
    accuracy,
    classify_by_confidence,
    classify_by_mean,
    level_set_scores,
)
from .regret import (
    cumulative_regret,
    instantaneous_regret,
    log_regret,
    share_held,
    share_of_targets,
    simple_regret,
)

__all__ = [
    "INTERVAL",
    "LevelSetScores",
    "LevelSets",
    "MeanAndStandardError",
    "RatioOfMeans",
    "accuracy",
    "binomial_interval",
    "classify_by_confidence",
    "classify_by_mean",
    "cumulative_regret",
    "format_with_error",
    "instantaneous_regret",
    "level_set_scores",
    "log_regret",
    "mean_and_standard_error",
    "median",
    "note_on_comparisons",
    "paired_difference",
    "pooled_difference",
    "ratio_of_means",
    "share_held",
    "share_of_targets",
    "simple_regret",
]
