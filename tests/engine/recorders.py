r"""The recorders of the engine, for tests that stand in for a device."""

from botorch_risk.engine.recorded import RECORDERS as RECORDERS
