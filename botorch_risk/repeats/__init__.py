r"""How often to repeat an experiment, and where to go next."""

from botorch_risk.repeats.knowledge_gradient import LogRiskAverseKnowledgeGradient, Readings
from botorch_risk.repeats.next_readings import next_readings
from botorch_risk.repeats.repeat_advice import RepeatAdvice, repeat_advice

__all__ = [
    "LogRiskAverseKnowledgeGradient",
    "Readings",
    "RepeatAdvice",
    "next_readings",
    "repeat_advice",
]
