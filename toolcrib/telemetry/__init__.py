"""What the service tells of itself: metrics, traces and logs; never a word of a user's."""

from toolcrib.telemetry.telemetry import Telemetry

__all__ = ["Telemetry"]
