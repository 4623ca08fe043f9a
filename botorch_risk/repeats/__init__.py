r"""How often to repeat an experiment, and where to go next."""

from botorch_risk.repeats.knowledge_gradient import (
    LogRiskAverseKnowledgeGradient,
    Readings,
    next_readings,
)
from botorch_risk.repeats.repeat_advice import RepeatAdvice, repeat_advice

__all__ = [
    "LogRiskAverseKnowledgeGradient",
    "Readings",
    "RepeatAdvice",
    "next_readings",
    "repeat_advice",
]
