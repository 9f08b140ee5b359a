"""How the service is, over the wire."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from toolcrib.http.wire.base import Answer

__all__ = ["AliveAnswer", "ReadyAnswer"]


class AliveAnswer(Answer):
    """The process answers."""

    status: Literal["ok"]


class ReadyAnswer(Answer):
    """The store answers, the model encodes, and the index is one of theirs.

    `tools` are those of the default namespace; `index` is a digest of the models and settings
    that made the index: equal in every replica that gives the same answers.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "ok",
                    "engine": "qdrant-edge 0.9.0",
                    "tools": 247,
                    "encoder": "bundled",
                    "index": "5a1c9e0b7d42f683",
                }
            ]
        }
    )

    status: Literal["ok"]
    engine: str
    tools: int
    encoder: str
    index: str
