r"""Decide how often to repeat an experiment, and where to measure next."""

from .knowledge_gradient import LogRiskAverseKnowledgeGradient, Readings, next_readings
from .repeat_advice import RepeatAdvice, repeat_advice

__all__ = [
    "LogRiskAverseKnowledgeGradient",
    "Readings",
    "RepeatAdvice",
    "next_readings",
    "repeat_advice",
]
