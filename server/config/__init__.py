"""The configuration: what was asked for by flags, file and environment, checked as a whole before anything starts."""

from server.config.plan import Flags, Plan, make_plan
from server.config.problems import ConfigProblem, ConfigRefused
from server.config.settings import Settings

__all__ = ["ConfigProblem", "ConfigRefused", "Flags", "Plan", "Settings", "make_plan"]
