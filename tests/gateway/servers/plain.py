"""An MCP server over stdio in plain Python, which starts at once and misbehaves on demand.

Its tools stand in a JSON file that is read anew for every listing; `does` says what one does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("tools", type=Path)
parser.add_argument("--start-with", type=Path, help="do nothing before this file is there")
parser.add_argument("--modern", action="store_true")
parser.add_argument("--mute", action="store_true", help="say nothing of changes")
parser.add_argument("--started", type=Path, help="gets a line with the process's id")
parser.add_argument("--list-after", type=float, default=0.0)
parser.add_argument("--instructions", type=Path, help="file of what is said of how to use it")
parser.add_argument("--offers", type=Path, help="file of prompts, resources and templates")
parser.add_argument("--no-list", action="store_true", help="refuse to list")
options = parser.parse_args()

ANY = {"type": "object", "properties": {}}
writing = threading.Lock()
waiting: dict[str, Any] = {}
cancelled: list[Any] = []
listening: list[dict[str, Any]] = []
counted = 0


def say(message: dict[str, Any]) -> None:
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    whole = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    say({"id": request["id"], "result": {**(whole if options.modern else {}), **result}})


def text(request: dict[str, Any], said: object, **more: object) -> None:
    told = said if isinstance(said, str) else json.dumps(said)
    answer(request, {"content": [{"type": "text", "text": told}], **more})


def ask(request: dict[str, Any], method: str, params: dict[str, Any]) -> None:
    if options.modern:
        given = request["params"].get("inputResponses")
        if given is None:
            asked = {"q": {"method": method, "params": params}}
            more = {"inputRequests": asked, "requestState": "as we were"}
            answer(request, {"resultType": "input_required", **more})
        else:
            text(request, [given["q"], request["params"].get("requestState")])
        return
    key = f"ask-{len(waiting)}"
    waiting[key] = request
    say({"id": key, "method": method, "params": params})


def does_echo(request, arguments):
    text(request, arguments, structuredContent={"given": arguments})


def does_die(request, arguments):
    sys.stderr.write(f"{arguments.get('words', 'out of luck')}\n")
    sys.stderr.flush()
    os._exit(3)


def token_of(request):
    return request["params"].get("_meta", {}).get("progressToken")


def report(request, done=0, **more):
    if (token := token_of(request)) is not None:
        params = {"progressToken": token, "progress": done, **more}
        say({"method": "notifications/progress", "params": params})


def does_hang(request, arguments):
    """Never answer this call; all else goes on."""
    report(request)


def does_deaf(request, arguments):
    """Never answer anything again."""
    report(request)
    time.sleep(600)


def does_fail(request, arguments):
    text(request, arguments.get("says", "no"), isError=True, structuredContent={"code": 7})


def does_refuse(request, arguments):
    say({"id": request["id"], "error": {"code": -32050, "message": "not today"}})


def does_babble(request, arguments):
    answer(request, {"content": "no list"})


def does_huge(request, arguments):
    text(request, "x" * arguments["chars"])


def does_elicit(request, arguments):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asked = {"mode": "form", "message": "Who?", "requestedSchema": schema}
    ask(request, "elicitation/create", asked)


def does_again(request, arguments):
    """Want to know more, whatever is told."""
    answer(request, {"resultType": "input_required", "requestState": "on and on"})


def does_sample(request, arguments):
    said = [{"role": "user", "content": {"type": "text", "text": "Hi"}}]
    ask(request, "sampling/createMessage", {"messages": said, "maxTokens": 9, **arguments})


def does_roots(request, arguments):
    ask(request, "roots/list", {})


def does_log(request, arguments):
    for level in ("debug", "warning"):
        params = {"level": level, "logger": "deep", "data": {"at": level}}
        say({"method": "notifications/message", "params": params})
    text(request, "logged")


def does_progress(request, arguments):
    for done in (1, 2):
        time.sleep(arguments.get("pause_s", 0))
        report(request, done, total=2, message="going")
    text(request, {"asked": token_of(request) is not None})


def does_noise(request, arguments):
    """Tell of much that is no affair of any client."""
    mine = token_of(request)
    for method, params in (
        ("progress", {"progressToken": "made up", "progress": 1}),
        ("progress", {"progressToken": 0 if mine is None else mine, "progress": 1}),
        ("cancelled", {"requestId": request["id"], "reason": "so"}),
        ("resources/updated", {"uri": "file:///x"}),
        ("resources/list_changed", {}),
        ("prompts/list_changed", {}),
    ):
        say({"method": f"notifications/{method}", "params": params})
    text(request, "done")


def does_announce(request, arguments):
    for meta in listening or [{}]:
        params = {"params": {"_meta": meta}} if meta else {}
        what = arguments.get("what", "tools")
        say({"method": f"notifications/{what}/list_changed", **params})
    text(request, "announced")


def does_tell(request, arguments):
    meta = request["params"].get("_meta", {})
    known = {"pid": os.getpid(), "cancelled": cancelled, "meta": meta, "env": dict(os.environ)}
    text(request, known)


def does_count(request, arguments):
    global counted  # noqa: PLW0603 -- what a session remembers is the point
    counted += 1
    text(request, str(counted))


def call(request: dict[str, Any]) -> None:
    tools = {tool["name"]: tool for tool in json.loads(options.tools.read_text())}
    tool = tools.get(request["params"]["name"])
    if tool is None:
        say({"id": request["id"], "error": {"code": -32602, "message": "Unknown tool"}})
        return
    arguments = request["params"].get("arguments") or {}
    globals()[f"does_{tool.get('does', 'echo')}"](request, arguments)


def listing() -> list[Any]:
    tools = json.loads(options.tools.read_text())
    for tool in tools:
        if isinstance(tool, dict):
            tool.pop("does", None)
            tool.setdefault("inputSchema", ANY)
    return tools


def lists(message):
    time.sleep(options.list_after)
    if options.no_list:
        say({"id": message["id"], "error": {"code": -32000, "message": "out of order"}})
    else:
        answer(message, {"tools": listing()})


INFO = {"name": "plain", "version": "1"}
TELLS = {"listChanged": not options.mute}
ABLE = {"tools": TELLS, "logging": {}}


def offers():
    return json.loads(options.offers.read_text()) if options.offers else {}


def offered(key):
    def lists_them(message):
        if key in offers().get("fails", []):
            say({"id": message["id"], "error": {"code": -32000, "message": "out of order"}})
        else:
            answer(message, {key: offers().get(key, [])})

    return lists_them


def gets(message):
    if message["params"].get("arguments", {}).get("how") == "rudely":
        does_refuse(message, {})
        return
    said = {"type": "text", "text": json.dumps(message["params"])}
    answer(message, {"messages": [{"role": "assistant", "content": said}]})


def reads(message):
    uri = message["params"]["uri"]
    text = f"{offers().get('reader', 'at')} {uri}"
    within = [f"{uri}/{name}" for name in offers().get("within", ())]
    contents = [{"uri": each, "mimeType": "text/x", "text": text} for each in within or [uri]]
    answer(message, {"contents": contents})


def greeting():
    says = options.instructions
    more = {"prompts": TELLS, "resources": TELLS} if options.offers else {}
    return {
        "capabilities": {**ABLE, **more},
        **({"instructions": says.read_text()} if says else {}),
    }


def initialize(message):
    version = message["params"]["protocolVersion"]
    answer(message, {"protocolVersion": version, "serverInfo": INFO, **greeting()})


def discover(message):
    answer(message, {"supportedVersions": ["2026-07-28"], **greeting()})


def listens(message):
    """Tell of changes from now on, as far as anything is told."""
    listener = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    params = {"notifications": message["params"]["notifications"], "_meta": listener}
    say({"method": "notifications/subscriptions/acknowledged", "params": params})
    listening.append(listener)


GREETINGS = {"server/discover": discover} if options.modern else {"initialize": initialize}
METHODS = {
    **GREETINGS,
    "ping": lambda message: answer(message, {}),
    "tools/list": lists,
    "tools/call": call,
    "prompts/list": offered("prompts"),
    "prompts/get": gets,
    "resources/list": offered("resources"),
    "resources/templates/list": offered("resourceTemplates"),
    "resources/read": reads,
    "subscriptions/listen": listens,
    "notifications/cancelled": lambda message: cancelled.append(message["params"]["requestId"]),
}


def respond(message: dict[str, Any]) -> None:
    method = message.get("method")
    if method is None:
        text(waiting.pop(message["id"]), message.get("result") or message.get("error"))
    elif method in METHODS:
        METHODS[method](message)
    elif "id" in message:
        say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    if options.started:
        with options.started.open("a") as file:
            file.write(f"{os.getpid()}\n")
    while options.start_with and not options.start_with.exists():
        time.sleep(0.02)
    for line in sys.stdin:
        respond(json.loads(line))
