"""Guidance: an agent's trajectory, four alarms over it, and one useful hint."""

from toolcrib.guidance import alarms, classifiers, providers, session, trajectory
from toolcrib.guidance.alarms import *  # noqa: F403
from toolcrib.guidance.calls import ToolCall, ToolResult
from toolcrib.guidance.classifiers import *  # noqa: F403
from toolcrib.guidance.providers import *  # noqa: F403
from toolcrib.guidance.session import *  # noqa: F403
from toolcrib.guidance.trajectory import *  # noqa: F403
from toolcrib.records import Guidance, GuidanceInjection, TrajectoryEvent, TrajectoryPattern

__all__ = ["Guidance", "GuidanceInjection", "ToolCall", "ToolResult"]
__all__ += ["TrajectoryEvent", "TrajectoryPattern"]
__all__ += alarms.__all__
__all__ += classifiers.__all__
__all__ += providers.__all__
__all__ += session.__all__
__all__ += trajectory.__all__
