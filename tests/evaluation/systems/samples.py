"""A dozen tools that no two people would confuse."""

from __future__ import annotations

from typing import Any

from toolcrib.records import ToolSpec

__all__ = ["OBVIOUS", "TOOLS"]


def _schema(**described: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": said} for name, said in described.items()
        },
    }


TOOLS = (
    ToolSpec(
        name="weather_forecast",
        server="weather",
        description="Give the weather forecast of a city for the coming days.",
        input_schema=_schema(city="Name of the city", days="How many days ahead"),
        success_examples=("will it rain in Lisbon tomorrow", "how warm does it get on Sunday"),
    ),
    ToolSpec(
        name="send_invoice",
        server="billing",
        description="Send an invoice to a customer.",
        input_schema=_schema(customer="Who pays", amount="How much, with its currency"),
    ),
    ToolSpec(
        name="translate_text",
        server="language",
        description="Translate a text into another language.",
        input_schema=_schema(text="What to translate", target="The language wanted"),
    ),
    ToolSpec(
        name="book_flight",
        server="travel",
        description="Book a flight between two airports.",
        input_schema=_schema(origin="Airport to leave from", destination="Airport to fly to"),
    ),
    ToolSpec(
        name="resize_image",
        server="media",
        description="Resize a picture to a width and a height in pixels.",
        input_schema=_schema(width="Pixels across", height="Pixels down"),
    ),
    ToolSpec(name="play_music", server="media", description="Play a song or an album."),
    ToolSpec(name="search", server="mail", description="Find emails in an inbox by sender."),
    ToolSpec(name="search", server="recipes", description="Find recipes by their ingredients."),
    ToolSpec(name="restart_kubernetes_pod", server="cluster"),
    ToolSpec(
        name="prévision_marée",
        server="mer",
        description="Donne l'heure de la marée haute dans un port breton. 潮汐时间表",
    ),
    ToolSpec(
        name="lockDoor",
        server="home",
        description="Lock or unlock the front door.",
        input_schema={"type": "object", "properties": ["not", "a", "mapping"]},
    ),
    ToolSpec(
        name="stock_quote",
        server="finance",
        description="Look up the share price of a company.",
        input_schema={"properties": {"ticker": True, "exchange": {"description": None}}},
    ),
)

OBVIOUS = {
    "weather forecast for a city": "weather/weather_forecast",
    "send an invoice to the customer": "billing/send_invoice",
    "translate this text into another language": "language/translate_text",
    "book a flight between two airports": "travel/book_flight",
    "find emails by sender in my inbox": "mail/search",
    "find recipes by ingredients": "recipes/search",
    "restart kubernetes pod": "cluster/restart_kubernetes_pod",
    "marée haute dans un port": "mer/prévision_marée",
    "unlock the front door": "home/lockDoor",
    "share price of a company": "finance/stock_quote",
}
"""Queries, and the tool that everyone would take."""
