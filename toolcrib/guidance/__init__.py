"""Guidance: an agent's trajectory, classifiers over it, and one useful hint."""

from toolcrib.guidance import classifiers, detectors, providers, session, trajectory
from toolcrib.guidance.actions import ToolCall
from toolcrib.guidance.classifiers import *  # noqa: F403
from toolcrib.guidance.detectors import *  # noqa: F403
from toolcrib.guidance.providers import *  # noqa: F403
from toolcrib.guidance.session import *  # noqa: F403
from toolcrib.guidance.trajectory import *  # noqa: F403
from toolcrib.records import Guidance, GuidanceInjection, TrajectoryEvent, TrajectoryPattern

__all__ = ["Guidance", "GuidanceInjection", "ToolCall", "TrajectoryEvent", "TrajectoryPattern"]
__all__ += classifiers.__all__
__all__ += detectors.__all__
__all__ += providers.__all__
__all__ += session.__all__
__all__ += trajectory.__all__
