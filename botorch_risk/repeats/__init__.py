r"""Decide how often to repeat an experiment, and where to measure next."""

from .adaptive_repeats import FixedRepeats, adaptive_repeats
from .knowledge_gradient import LogRiskAverseKnowledgeGradient, Readings, next_readings
from .repeat_advice import RepeatAdvice, repeat_advice
from .risk_averse_kg import risk_averse_kg

__all__ = [
    "FixedRepeats",
    "LogRiskAverseKnowledgeGradient",
    "Readings",
    "RepeatAdvice",
    "adaptive_repeats",
    "next_readings",
    "repeat_advice",
    "risk_averse_kg",
]
