"""Language models: one small protocol, clients for it, structured answers and their accounting."""

from toolcrib.language_models.base import ChatFailure, ChatModel, ChatReply
from toolcrib.language_models.model import LanguageModel, UsageMeter, metered

__all__ = [
    "ChatFailure",
    "ChatModel",
    "ChatReply",
    "LanguageModel",
    "UsageMeter",
    "metered",
]
