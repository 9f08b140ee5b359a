"""Language models: one small protocol, clients for it, structured answers and their accounting."""

from toolcrib.language_models.base import ChatFailure, ChatModel, ChatReply
from toolcrib.language_models.model import (
    FieldwiseAnswer,
    LanguageModel,
    ModelRequest,
    UsageMeter,
    count_usage,
)

__all__ = [
    "ChatFailure",
    "ChatModel",
    "ChatReply",
    "FieldwiseAnswer",
    "LanguageModel",
    "ModelRequest",
    "UsageMeter",
    "count_usage",
]
