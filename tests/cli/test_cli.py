"""The command line: what it does, what it says, its exit codes."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys

import pytest
import qdrant_edge as engine
from rich.text import Text

from tests.cli.conftest import ENV, TOOLS
from tests.retrieval.calibrations import flat
from toolcrib import Crib, ToolSpec
from toolcrib.cli import main
from toolcrib.cli.app import COMMANDS, command_leaves, load
from toolcrib.errors import StoreWriteError
from toolcrib.indexers.points import dense_text
from toolcrib.settings import FILE_NAME
from toolcrib.store.base import Point, point_id
from toolcrib.tenants import Tenants


@pytest.mark.slow
def test_as_a_process_of_its_own_it_says_and_returns_the_same(shell):
    source = shell.write("tools.jsonl", *TOOLS, {"description": "no name"})
    done = shell.process("index", source, "--strict", "--json")
    assert (done.returncode, json.loads(done.stdout)["added"]) == (1, 3)
    done = shell.process("show", "mail/send_male")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "mail/send_mail" in done.stderr


def test_ctrl_c_while_modules_are_loaded_ends_as_later_on(monkeypatch):
    class Interrupted:
        def find_spec(self, name, path=None, target=None):
            if name == "toolcrib.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "toolcrib.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_what_the_system_refuses_is_one_line(shell, monkeypatch):
    def refuse(*_given, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolcrib.cli.docs.print_json", refuse)
    reason = "[Errno 28] No space left on device"
    assert shell.error("schema", "settings", code=3) == f"error: {reason}\n"
    monkeypatch.setattr("toolcrib.cli.index.any_crib", refuse)
    printed = json.loads(shell("list", "--json").stdout)
    assert printed == {"error": {"type": "OSError", "message": reason}}
    # Standard output may be what is refused.
    monkeypatch.setattr("toolcrib.cli.output.print_json", refuse)
    assert shell.error("list", "--json", code=3) == f"error: {reason}\n"


@pytest.mark.slow
def test_a_command_runs_without_the_streams_that_the_shell_closed(shell):
    command = f"{sys.executable} -m toolcrib schema toolspec <&- >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", command], cwd=shell.folder, check=False).returncode == 0


def test_every_command_says_what_it_is_for(shell):
    for name in COMMANDS:
        done = shell(name, "--help")
        assert done.returncode == 0, name
        assert f"toolcrib {name} [OPTIONS]" in done.stdout
        assert done.stdout.splitlines()[3].strip(), name


def test_no_help_has_brackets_that_are_read_as_markup():
    for name in COMMANDS:
        for command in command_leaves(load(name)):
            texts = [command.help or "", *(getattr(each, "help", "") for each in command.params)]
            for text in filter(None, texts):
                assert Text.from_markup(text).plain == text, command.name


def test_index_counts_what_it_did_and_a_second_run_leaves_all_alone(shell):
    source = shell.write("tools.jsonl", *TOOLS)
    first = shell.json("index", source)
    assert first == {"added": 3, "changed": 0, "removed": 0, "unchanged": 0, "refused": []}
    assert shell.json("index", source)["unchanged"] == 3


def test_what_stands_beside_the_sources_is_said_of_their_tools(shell):
    (shell.folder / "tools").mkdir()
    shell.write("tools/tools.jsonl", *TOOLS)
    shell.write("tools/overlay.yaml", {"tools": {"mail/*": {"sensitivity": "pii"}, "x": {}}})
    shell.write("tools/enrichment.jsonl", {"id": "mail/send_mail", "purpose": "Tell a friend."})
    first = shell.json("index", "tools")
    assert (first["added"], first["refused"]) == (3, [])
    assert [each["place"] for each in first["dropped"]] == ["x"]
    assert "x: matches no tool's id" in shell("index", "tools").stdout
    shown = shell.json("show", "mail/send_mail")
    assert (shown["sensitivity"], shown["enrichment"]["purpose"]) == ("pii", "Tell a friend.")
    other = shell.write("other.yaml", {"tools": {"*": {"tags": ["all"]}}})
    assert shell.json("index", "tools/tools.jsonl", "--overlay", other)["changed"] == 3
    assert shell.json("show", "mail/send_mail")["enrichment"]["purpose"] == "Tell a friend."
    found = json.loads(shell("search", "tell a friend", "--as", "openai", "--enriched").stdout)
    assert any(each["function"]["description"].endswith("Tell a friend.") for each in found)


def test_an_overlay_that_cannot_be_used_is_reported(shell, caplog):
    source, overlay = shell.write("tools.jsonl", *TOOLS), shell.folder / "overlay.yaml"
    overlay.write_text("mail/*: {sensitivity: pii}\n")
    shell("index", source)
    assert "overlay.yaml is not used" in caplog.text
    overlay.write_text("tools: {mail/*: {sensitivity: pii\n")
    assert "overlay.yaml: " in shell.error("index", source, code=2)
    overlay.write_text("# tools: {}\n")
    assert shell.json("index", source)["unchanged"] == 3


def test_a_folder_with_store_settings_and_hidden_folders_is_pruned(shell):
    (shell.folder / ".github").mkdir()
    shell.write(FILE_NAME, {"tools": {"k": 3}})
    shell.write("tools.jsonl", *TOOLS)
    shell("index", ".")
    shell.write("tools.jsonl", *TOOLS[1:])
    report = shell.json("index", ".", "--prune")
    assert (report["removed"], report["refused"]) == (1, [])


def test_index_says_in_words_what_it_did(shell):
    done = shell("index", shell.write("tools.jsonl", *TOOLS, {"description": "no name"}))
    assert done.returncode == 0
    assert "3 added, 0 changed, 0 removed, 0 unchanged in" in done.stdout
    assert "1 refused:" in done.stdout
    assert "tools.jsonl: line 4" in done.stdout


def test_a_tool_that_is_read_twice_is_told_and_fails_nothing(shell):
    done = shell("index", shell.write("tools.jsonl", TOOLS[0], TOOLS[0], TOOLS[1]), "--strict")
    assert done.returncode == 0
    assert "2 added" in done.stdout
    assert "1 read twice:" in done.stdout


def test_strict_fails_when_anything_was_refused_and_keeps_the_good(shell):
    source = shell.write("tools.jsonl", TOOLS[0], {"description": "x"})
    assert shell("index", source, "--strict").returncode == 1
    assert [tool["id"] for tool in shell.json("list")["tools"]] == ["mail/send_mail"]


def test_sources_of_which_nothing_could_be_read_fail(shell):
    done = shell("index", "nowhere.json", "--json")
    assert done.returncode == 1
    [refusal] = json.loads(done.stdout)["refused"]
    assert refusal["source"] == "nowhere.json"
    assert refusal["reason"].startswith("there is no such file or folder")
    assert not (shell.folder / ".toolcrib").exists()


@pytest.mark.parametrize(
    "content",
    [
        "".join(json.dumps(tool) + "\n" for tool in TOOLS),
        json.dumps(TOOLS),
        json.dumps({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}),
        "tools:\n- name: a\n  server: s\n  description: From YAML.\n",
    ],
    ids=["lines", "list", "mcp", "yaml"],
)
def test_a_dash_reads_standard_input_in_any_format(shell, content):
    assert shell("index", "-", stdin=content).returncode == 0
    assert shell.json("list")["tools"]
    assert shell("audit", "-", stdin=content).returncode == 0


def test_what_is_wrong_with_standard_input_is_told_of_it(shell):
    done = shell("index", "-", "--json", stdin="{")
    assert done.returncode == 1
    assert {each["source"] for each in json.loads(done.stdout)["refused"]} == {"standard input"}


def test_prune_removes(shell):
    shell.json("index", shell.write("tools.jsonl", *TOOLS))
    report = shell.json("index", shell.write("fewer.jsonl", TOOLS[0]), "--prune")
    assert (report["removed"], report["unchanged"]) == (2, 1)


def test_server_and_format_are_taken_from_the_command_line(shell):
    (shell.folder / "x.json").write_text(json.dumps([{"name": "a", "input_schema": {}}]))
    shell.json("index", "x.json", "--format", "functions", "--server", "mine")
    assert [tool["server"] for tool in shell.json("list")["tools"]] == ["mine"]


def test_search_keeps_its_contract(indexed):
    answer = indexed.json("search", "send somebody a mail", "-k", "2")
    judged = {"confidence", "verdict", "reason", "threshold", "fallback"}
    assert set(answer) == {"query", "tools", *judged, "took_ms", "degraded"}
    assert answer["query"] == "send somebody a mail"
    best = answer["tools"][0]
    about = {"id", "kind", "name", "server", "description"}
    assert set(best) == {*about, "score", "probability", "rank"}
    assert (best["id"], best["rank"]) == ("mail/send_mail", 1)
    assert (best["name"], best["server"]) == ("send_mail", "mail")
    assert 0 < best["score"] <= 1
    assert "total" in answer["took_ms"]
    assert answer["degraded"] == []


def test_needs_are_answered_one_by_one(indexed):
    needs = ("--need", "send somebody a mail", "--need", "read a file")
    answer = indexed.json("search", *needs)
    assert [need["text"] for need in answer["needs"]] == list(needs[1::2])
    assert all(set(need) == {"text", "verdict", "confidence"} for need in answer["needs"])
    served = {tool["id"]: tool["needs"] for tool in answer["tools"]}
    assert 0 in served["mail/send_mail"]
    assert 1 in served["files/read_file"]
    assert "needs" in indexed.json("search", "send", *needs)["tools"][0]
    shown = indexed("search", *needs).stdout
    assert "1 read a file: fits" in shown


def test_a_step_of_a_run_is_searched_with_its_calls_and_its_history(indexed):
    (indexed.folder / "said.json").write_text('[{"role": "user", "content": "send a mail"}]')
    first = indexed.json("search", "do it", "--history", "said.json", "-k", "1")
    assert first["tools"][0]["id"] == "mail/send_mail"
    step = ("--task", "send somebody a mail", "--called", "mail/send_mail")
    found = indexed.json("search", *step)
    assert found["called"] == ["mail/send_mail"]
    assert "mail/send_mail" not in {hit["id"] for hit in found["tools"]}
    shown = indexed("search", "read a file", *step, "--explain")
    assert "called before: mail/send_mail" in shown.stderr
    assert "verb" in shown.stdout
    assert "said.json" in indexed("search", "x", "--history", "no/said.json").stderr


def test_search_shows_a_table(indexed):
    done = indexed("search", "send somebody a mail")
    assert "mail/send_mail" in done.stdout
    assert "Send a mail to somebody." in done.stdout
    assert "sql/drop" not in done.stdout


def test_explain_shows_the_legs_the_stages_and_the_words_in_no_tool(indexed):
    done = indexed("search", "mail a zebra", "--explain")
    head = done.stdout.splitlines()[0].split("\t")
    assert (head[:3], set(head[3:])) == (["#", "score", "tool"], {"dense", "lexical"})
    assert "in no tool: zebra" in done.stderr
    assert "encode" in done.stderr
    narrow = indexed("search", "mail", "--explain", "--server", "files").stderr
    assert re.search(r"matched, \d+ left out: not server files", narrow)
    told = indexed.json("search", "mail a zebra", "--explain")
    assert told["unmatched_terms"] == ["zebra"]
    assert set(told["tools"][0]["legs"]) == {"dense", "lexical"}


def test_server_and_tag_narrow(indexed):
    for options in (("--server", "files"), ("--tag", "safe")):
        [tool] = indexed.json("search", "x", *options)["tools"]
        assert tool["id"] == "files/read_file"
    assert indexed.json("search", "x", "--server", "nobody")["tools"] == []


@pytest.mark.parametrize(
    ("shape", "keys"),
    [
        ("openai", {"type", "function"}),
        ("anthropic", {"name", "description", "input_schema"}),
        ("mcp", {"name", "description", "inputSchema"}),
        ("json", {"id", "name", "description", "server"}),
    ],
)
def test_as_prints_definitions_for_a_model(indexed, shape, keys):
    done = indexed("search", "send a mail", "-k", "1", "--as", shape)
    [definition] = json.loads(done.stdout)
    assert set(definition) == keys


def test_as_with_json_names_what_no_provider_takes(shell):
    odd = {"type": "object", "properties": {"$top": {"type": "integer"}}}
    tools = [
        {"name": "list_mails", "description": "List mails.", "input_schema": odd},
        {"name": "list_all_mails", "description": "List mails.", "input_schema": {"type": "array"}},
    ]
    shell("index", shell.write("mails.jsonl", *tools))
    for shape in ("anthropic", "openai", "mcp"):
        found = shell.json("search", "list mails", "--as", shape)
        assert list(found["names"].values()) == ["list_mails"]
        assert len(found["tools"]) == 1
        assert found["left_out"] == [
            {"id": "list_all_mails", "reason": "its arguments are not an object"}
        ]
    done = shell("search", "list mails", "--as", "anthropic")
    [definition] = json.loads(done.stdout)
    assert list(definition["input_schema"]["properties"]) == ["top"]
    assert "list_all_mails is left out" in done.stderr


@pytest.mark.parametrize("shape", ["typescript", "python-stub"])
def test_declarations_are_source_text_and_json_where_it_is_asked_for(indexed, shape):
    asked = ("search", "send a mail", "-k", "2", "--as", shape)
    told = json.loads(indexed(*asked, "--json").stdout)
    assert {"id", "name", "declaration"} == set(told[0])
    source = indexed(*asked).stdout
    assert source.endswith("\n\n".join(each["declaration"] for each in told) + "\n")
    assert source.startswith("from typing import") == (shape == "python-stub")


def test_batch_answers_one_object_a_line_and_stays_in_step(indexed):
    texts = "send mail\n\nread a file\n"
    done = indexed("search", "--batch", "-", "--json", "-k", "1", stdin=texts)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["query"] for line in lines] == ["send mail", "", "read a file"]
    assert [len(line["tools"]) for line in lines] == [1, 0, 1]
    assert lines[1]["error"] == "the query is empty: say in a few words what the tool must do"


def test_batch_reads_a_file_and_draws_a_table_for_each(indexed):
    (indexed.folder / "queries.txt").write_text("send mail\n🙂\n\n")
    done = indexed("search", "--batch", "queries.txt")
    assert done.returncode == 0
    assert "mail/send_mail" in done.stdout
    assert "no words to search by" in done.stderr
    assert "the query is empty" in done.stdout


def test_a_missing_batch_file_is_one_line(indexed):
    stderr = indexed.error("search", "--batch", "nope.txt")
    assert stderr == "error: nope.txt: cannot be read: No such file or directory\n"


def test_list_show_and_remove(indexed):
    listed = indexed("list")
    assert "3 tools" in listed.stderr
    assert "disabled" in listed.stdout
    shown = indexed("show", "files/read_file")
    assert "Read a file." in shown.stdout
    assert indexed.json("show", "sql/drop")["enabled"] is False
    assert indexed.json("remove", "sql/drop") == {"removed": 1}
    assert "2 tools" in indexed("list").stderr
    assert "1 removed" in indexed("remove", "files/read_file").stdout
    assert "1 tool\n" in indexed("list").stderr


def test_an_error_is_json_when_json_is_asked_for(indexed):
    done = indexed("show", "nope", "--json")
    assert done.returncode == 2
    error = {"type": "UnknownToolError", "message": "no tool has the id 'nope'"}
    assert json.loads(done.stdout)["error"] == error


def test_searching_where_nothing_is_says_how_to_begin(shell):
    stderr = shell.error("search", "anything", code=3)
    assert stderr.startswith("error: there is no index in .toolcrib; make one with")
    assert stderr.count("\n") == 1
    assert not (shell.folder / ".toolcrib").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("search",),
        ("search", "a", "--batch", "-"),
        ("search", "--need", "a", "--batch", "-"),
        ("search", "a", "--as", "cobol"),
        ("search", "a", "-k", "0"),
        ("search", "a", "-k", "some"),
        ("search", "a", "-k", "auto", "--coverage", "1.5"),
        ("index",),
        ("index", "tools.jsonl", "--server", ""),
        ("search", "a", "--store", ""),
        ("nonsense",),
    ],
)
def test_wrong_usage_exits_with_2_and_no_trace(indexed, arguments):
    assert "Usage:" in indexed.error(*arguments)


def problems_of(shell, *options, **env):
    """The problems that `toolcrib doctor` finds, by which it fails."""
    done = shell("doctor", "--json", *options, **env)
    found = json.loads(done.stdout)["problems"]
    assert done.returncode == bool(found)
    return found


def test_doctor_is_content_with_a_healthy_index(indexed):
    told = indexed.json("doctor")
    assert told["healthy"] is True
    assert told["index"]["tools"] == 3
    assert told["index"]["engine"].startswith("qdrant-edge-py")
    assert told["models"]["dense"] == "deterministic-trigrams-64"
    assert told["confidence"] == {"calibration": "none for these models and settings"}
    assert "nothing is wrong" in indexed("doctor").stdout


def test_doctor_counts_the_other_namespaces(shell, settings):
    with Tenants.open(shell.folder / ".toolcrib", settings=settings) as tenants:
        tenants.crib("acme").index_tools([ToolSpec(name="send"), ToolSpec(name="read")])
    told = shell.json("doctor")
    assert told["healthy"] is True
    assert told["index"]["tools"] == 0
    assert told["other namespaces"] == {"tools": 2, "passages": 0}


def test_doctor_finds_damage_of_the_other_namespaces(shell, settings):
    store = shell.folder / ".toolcrib"
    with Tenants.open(store, settings=settings) as tenants:
        tenants.crib("acme").index_tools([ToolSpec(name="send")])
    [sums] = (store / "tenants").rglob("checksums.json")
    sums.write_text("{")
    [problem] = problems_of(shell)
    assert "checksums.json cannot be read" in problem["what"]


def test_doctor_finds_a_records_database_with_which_no_service_starts(indexed):
    (indexed.folder / ".toolcrib" / "ledger.db").write_text("no database")
    [problem] = problems_of(indexed)
    assert "ledger.db cannot be read" in problem["what"]
    assert json.loads(indexed("doctor", "--json").stdout)["index"]["tools"] == 3


def test_doctor_finds_a_records_database_that_takes_no_writes(indexed, monkeypatch):
    connect = sqlite3.connect
    indexed("keys", "create", "me")
    monkeypatch.setattr(
        "toolcrib.store.records_db.sqlite.sqlite3.connect",
        lambda name, **how: connect(name.replace("mode=rw", "mode=ro"), **how),
    )
    [problem] = problems_of(indexed)
    assert "give this user the right to write" in problem["what"]


def test_doctor_finds_a_disk_that_takes_no_writes(indexed, monkeypatch):
    monkeypatch.setattr("toolcrib.store.qdrant_edge.MIN_FREE_BYTES", 2**60)
    [problem] = problems_of(indexed)
    assert "toolcrib stops writing below" in problem["what"]


def test_doctor_says_what_is_off_without_the_extra_context(indexed, monkeypatch):
    there = indexed.json("doctor")["context"]
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.setitem(sys.modules, "stdnum", None)
    off = indexed.json("doctor")
    assert off["healthy"] is True
    read = ["telephone numbers", "language of a turn", "national and tax numbers"]
    assert list(there) == list(off["context"]) == read
    assert all("toolcrib[context]" in text for text in off["context"].values())
    assert "toolcrib[context]" not in str(there)
    [problem] = problems_of(indexed, TOOLCRIB_CONTEXT__REGION="DE")
    assert "context.region: DE" in problem["what"]


def test_a_deep_check_finds_what_is_stored_and_is_not_what_the_text_gives(shell, settings):
    fine, other, reworded = (
        ToolSpec(name=name, description=f"Does what {name} is for: {words}.")
        for name, words in (("fine", "tea"), ("other", "storms at sea"), ("changed", "coffee"))
    )
    with Crib.open(shell.folder / ".toolcrib", settings=settings) as crib:
        crib.index_tools(fine, other, reworded)
        store = crib.tools.store
        payloads = {r.payload["id"]: r.payload for r in store.scroll()}
        vectors = crib.tools.dense.encode_documents([dense_text(fine)])
        spec = payloads["changed"]["spec"].replace("coffee", "toffee")
        stored = {"other": payloads["other"], "changed": {**payloads["changed"], "spec": spec}}
        for name, payload in stored.items():
            store.upsert([Point(point_id(name), payload, {"dense": vectors[0]})])
    assert shell("doctor").returncode == 0
    assert {problem["what"] for problem in problems_of(shell, "--deep")} == {
        "the tool 'other': its vector is not that of its text",
        "the tool 'changed': differs from its text: digest",
    }


def test_doctor_names_the_extra_that_a_service_is_asked_with(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    [problem] = problems_of(shell, TOOLCRIB_URL="http://127.0.0.1:1")
    assert problem["mend"] == "pip install 'toolcrib[client]'"


def test_doctor_names_what_is_wrong_and_the_command_that_mends_it(shell):
    done = shell("doctor")
    assert done.returncode == 1
    assert "there is no index in .toolcrib" in done.stdout
    assert "toolcrib index SOURCE... --store .toolcrib" in done.stdout


def test_doctor_names_fields_that_lack_a_payload_index(shell, settings, monkeypatch):
    tools = [ToolSpec(name=f"tool {n}", description=f"Does thing {n}.") for n in range(40)]
    with Crib.open(shell.folder / ".toolcrib", settings=settings) as crib:
        crib.index_tools(tools)
        drop = engine.UpdateOperation.delete_field_index("server")
        crib.tools.store._open_shard().update(drop)

    def full(folder, _bytes):
        raise StoreWriteError(f"0 MiB are free where {folder} lies")

    with monkeypatch.context() as patch:
        patch.setattr("toolcrib.store.qdrant_edge.require_space", full)
        [problem] = problems_of(shell)
    assert "server" in problem["what"]
    # With room again it is made by whoever opens the index.
    assert shell.json("doctor")["healthy"] is True


BAD_SETTINGS = """
gate: {fallback: mail/sned_mail}
tools: {servers: [mial]}
collections: [{name: barn}]
knowledge: {map: [{domain: api, intent: integrate, collections: [bran]}]}
encoder: {reranker: "bundled:./nowhere"}
"""


def test_doctor_says_in_sentences_what_is_wrong_with_settings_that_were_accepted(indexed):
    (indexed.folder / "toolcrib.yaml").write_text(BAD_SETTINGS)
    problems = problems_of(indexed)
    wanted = {
        "nowhere is not a model folder": "set encoder.reranker: null",
        "the collection 'barn' holds no passages": "toolcrib index-docs PATH... --collection barn",
        "tools.servers allows 'mial', but the index has no such server; did you mean 'mail'?": (
            "index the tools of mial"
        ),
        "gate.fallback: no tool has the id 'mail/sned_mail'; did you mean 'mail/send_mail'": (
            "name another in gate.fallback"
        ),
        "knowledge.map names a collection 'bran', which does not exist; did you mean 'barn'?": (
            "correct knowledge.map"
        ),
    }
    assert len(problems) == len(wanted)
    for problem, (what, mend) in zip(problems, wanted.items(), strict=True):
        assert problem["what"].startswith(what)
        assert mend in problem["mend"]


def test_a_general_tool_that_is_not_there_is_a_warning_once_there_are_tools(shell, indexed, caplog):
    given = {"TOOLCRIB_GATE__FALLBACK": "mail/sned_mail"}
    assert indexed("search", "mail", **given).returncode == 0
    [message] = caplog.messages
    assert message.startswith("gate.fallback: no tool has the id 'mail/sned_mail'")
    caplog.clear()
    first = ("index", shell.write("a.jsonl", {"name": "a", "server": "s"}), "--store", "other")
    assert shell(*first, **given).returncode == 0
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("context: {labels: {intent: gone.yaml}}\n", "cannot read the labels of intent"),
        ("context: {labels: {itent: gone.yaml}}\n", "context.labels: there is no field 'itent'"),
        ("context: {cues: gone.yaml}\n", "cannot read the cues 'gone.yaml'"),
        ("agents: {targets: gone.yaml}\n", "cannot read the targets 'gone.yaml'"),
        ("agents: {targets: preset, allowlist: gone.yaml}\n", "cannot read the allowlist"),
        ("questions: {clinic: gone.yaml}\n", "gone.yaml: cannot be read"),
        ("capabilities: {file: gone.yaml}\n", "cannot read the capabilities 'gone.yaml'"),
        ("llm: {api_key_file: gone.key}\n", "llm.api_key_file: gone.key"),
    ],
)
def test_doctor_names_files_of_the_settings_that_cannot_be_read(indexed, written, what):
    (indexed.folder / "toolcrib.yaml").write_text(written)
    [problem] = problems_of(indexed)
    assert problem["what"].startswith(what)
    assert "correct that file" in problem["mend"]


def test_doctor_says_how_an_index_that_somebody_holds_is_reached(indexed, settings):
    with Crib.open(indexed.folder / ".toolcrib", settings=settings):
        [problem] = problems_of(indexed)
    assert problem["mend"] == "stop the other process, or name another folder with --store"


def test_a_calibration_that_holds_no_more_is_mended_by_a_command_that_doctor_names(
    indexed, settings
):
    with Crib.open(indexed.folder / ".toolcrib", settings=settings) as crib:
        crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.75))
    told = indexed.json("doctor")
    assert told["confidence"]["calibration"] == "fitted"
    other = {"TOOLCRIB_FUSION__DENSE": "0.9"}
    [problem] = problems_of(indexed, **other)
    assert problem["what"].startswith("the calibration was made with fusion {")
    assert "--reset" in problem["mend"]
    assert indexed("calibrate", "--reset", **other).returncode == 0
    assert indexed.json("doctor", **other)["healthy"] is True


def test_an_index_of_another_model_is_mended_by_the_command_that_doctor_names(indexed):
    other = {"TOOLCRIB_ENCODER__DENSE": "deterministic:32"}
    assert "`toolcrib index --rebuild`" in indexed.error("search", "mail", code=4, **other)
    [problem] = problems_of(indexed, **other)
    [command, *words] = problem["mend"].split()
    assert (command, words[:3]) == ("toolcrib", ["index", "--rebuild", "--store"])
    rebuilt = indexed(*words, **other)
    assert (rebuilt.returncode, rebuilt.stdout) == (0, "3 tools and 0 passages encoded anew\n")
    assert indexed.json("search", "mail", **other)["tools"][0]["id"] == "mail/send_mail"


def test_a_rebuild_does_not_prune_by_no_source(indexed):
    assert "SOURCES" in indexed.error("index", "--rebuild", "--prune")
    assert len(indexed.json("list")["tools"]) == 3


def test_a_rebuild_counts_what_all_namespaces_hold(indexed, settings):
    with Tenants.open(indexed.folder / ".toolcrib", settings=settings) as many:
        many.crib("acme").index_tools([{"name": "ping"}, {"name": "pong"}])
    done = indexed("index", "--rebuild", TOOLCRIB_ENCODER__DENSE="deterministic:32")
    assert (done.returncode, done.stdout) == (0, "5 tools and 0 passages encoded anew\n")


def test_a_wrong_setting_is_one_line(shell):
    (shell.folder / "toolcrib.yaml").write_text("encoder:\n  dence: bundled\n")
    stderr = shell.error("search", "x")
    assert stderr.startswith("error: toolcrib.yaml or TOOLCRIB_*: encoder.dence: there is no such")
    assert "did you mean 'encoder.dense'" in stderr
    assert stderr.count("\n") == 1


def test_a_settings_file_can_be_named(shell):
    (shell.folder / "mine.yaml").write_text("store: elsewhere\n")
    source = shell.write("tools.jsonl", *TOOLS)
    shell.json("--settings", "mine.yaml", "index", source)
    assert (shell.folder / "elsewhere" / "current").is_file()
    stderr = shell.error("--settings", "none.yaml", "list")
    assert stderr == "error: there is no settings file 'none.yaml'\n"


def test_version(shell):
    assert shell("--version").stdout == "0.1.0\n"


@pytest.mark.slow
def test_a_reader_of_our_output_may_stop_early(indexed):
    command = f"{sys.executable} -m toolcrib list | head -1"
    env = {**os.environ, **ENV}
    done = subprocess.run(
        command, shell=True, cwd=indexed.folder, env=env, capture_output=True, check=True
    )
    assert b"Traceback" not in done.stderr


def test_a_stream_that_lacks_a_letter_gets_its_escape(shell):
    tool = {"name": "印鑑登録", "server": "住民課", "description": "印鑑を登録する。"}
    shell.json("index", shell.write("tools.jsonl", tool))
    listed = shell.process("list", "--json", PYTHONIOENCODING="ascii")
    assert listed.returncode == 0
    assert "印鑑登録" in str(json.loads(listed.stdout))
    assert "Traceback" not in shell.process("list", PYTHONIOENCODING="ascii").stderr


def test_lines_of_standard_input_that_are_no_utf_8_are_an_error(indexed):
    done = subprocess.run(
        [sys.executable, "-m", "toolcrib", "search", "--batch", "-"],
        cwd=indexed.folder,
        input="印鑑\n".encode("shift_jis"),
        capture_output=True,
        check=False,
        env={**os.environ, **ENV, "LC_ALL": "C"},
    )
    assert done.returncode == 2
    assert b"UTF-8" in done.stderr
