"""What the gateway's parts warn of while it runs is said, and what others log is not."""

from __future__ import annotations

import logging

from toolcrib.gateway.launch import heard


def test_warnings_are_said_in_one_line_with_what_is_at_the_bottom_of_them():
    said = []
    with heard(lambda level, text: said.append((level, text))):
        logging.getLogger("toolcrib.store").info("nothing to speak of")
        logging.getLogger("toolcrib.store").warning("slow by %s s", 3)
        cause = ValueError("no such thing")
        logging.getLogger("toolcrib.store").error("it failed", exc_info=cause)
        logging.getLogger("fastmcp").error("not ours")
    logging.getLogger("toolcrib.store").warning("too late")

    assert said == [("warning", "slow by 3 s"), ("error", "it failed: no such thing")]


def test_loggers_are_left_as_they_were():
    ours, theirs = logging.getLogger("toolcrib"), logging.getLogger("fastmcp")
    before = (ours.propagate, list(ours.handlers), theirs.level)
    with heard(lambda _level, _text: None):
        pass

    assert (ours.propagate, list(ours.handlers), theirs.level) == before
