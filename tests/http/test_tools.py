"""The registry over HTTP: tools in, out, listed and counted."""

from __future__ import annotations

import pytest


def ids(answer):
    assert answer.status_code == 200, answer.text
    return sorted(tool["id"] for tool in answer.json()["tools"])


def test_what_is_put_in_is_reported_as_by_the_command_line(tenant):
    answer = tenant.post("/v1/tools", json={"tools": [{"name": "ping", "version": "1"}]})
    assert answer.json() == {
        "added": 1,
        "changed": 0,
        "removed": 0,
        "unchanged": 0,
        "refused": [],
        "ids": {"added": ["ping"], "changed": [], "removed": [], "unchanged": []},
        "quarantined": [],
    }


def test_a_tool_that_is_sent_twice_is_named_as_a_copy(tenant):
    ping = {"name": "ping", "version": "1"}
    report = tenant.post("/v1/tools", json={"tools": [ping, ping]}).json()
    assert (report["added"], report["refused"]) == (1, [])
    [copy] = report["copies"]
    assert (copy["source"], copy["place"]) == ("the request", "ping")


def test_an_openapi_document_is_read(tenant):
    paths = {"/pets": {"get": {"operationId": "listPets", "summary": "List all pets."}}}
    document = {"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "paths": paths}
    assert tenant.post("/v1/tools", json={"tools": document, "server": "pets"}).json()["added"] == 1
    assert ids(tenant.get("/v1/tools")) == ["pets/listPets"]


def test_a_format_may_be_named(tenant):
    sent = [{"name": "ping", "description": "Ping.", "input_schema": {}}]
    tenant.post("/v1/tools", json={"tools": sent, "format": "functions", "server": "net"})
    assert ids(tenant.get("/v1/tools")) == ["net/ping"]


def test_an_empty_list_puts_nothing_in_and_prunes_everything(stocked):
    assert stocked.post("/v1/tools", json={"tools": []}).json()["removed"] == 0
    assert stocked.post("/v1/tools", json={"tools": [], "prune": True}).json()["removed"] == 4


@pytest.mark.parametrize("tools", ["mail.json", 3, None])
def test_nothing_is_read_by_its_name(tenant, tools):
    assert tenant.post("/v1/tools", json={"tools": tools}).status_code == 422


def test_a_list_is_narrowed_by_servers_and_tags(stocked):
    several = ids(stocked.get("/v1/tools?server=mail&server=sql"))
    assert several == ["mail/read_mail", "mail/send_mail", "sql/drop_table"]
    assert ids(stocked.get("/v1/tools?server=mail&tag=safe")) == ["mail/read_mail"]


def test_links_say_who_needs_whom_and_what_replaces_what(tenant):
    needs = {"properties": {"order_id": {}}, "required": ["order_id"]}
    tools = [
        {"name": "track", "input_schema": needs},
        {"name": "list_orders"},
        {"name": "follow", "description": "Deprecated: use track instead."},
    ]
    tenant.post("/v1/tools", json={"tools": tools, "server": "shop"})

    def links(name):
        return tenant.post("/v1/tools/links", json={"id": f"shop/{name}"}).json()

    assert links("track")["needs"] == [{"id": "shop/list_orders", "parameter": "order_id"}]
    assert links("list_orders")["needed_by"] == [{"id": "shop/track", "parameter": "order_id"}]
    assert links("follow") == {
        "needs": [],
        "needed_by": [],
        "goes_with": [],
        "replaced_by": "shop/track",
    }
    assert tenant.post("/v1/tools/links", json={"id": "shop/none"}).status_code == 404


def listed(client, **body):
    """Ids of a list, page by page, in its order."""
    found, page = [], {"next": None}
    while page["next"] or not found:
        sent = {"limit": 2, "cursor": page["next"], **body}
        page = client.post("/v1/tools/list", json=sent).json()
        found += [tool["id"] for tool in page["tools"]]
    return found


def test_a_list_is_sorted_by_name_or_server(stocked):
    names = ["sql/drop_table", "files/read_file", "mail/read_mail", "mail/send_mail"]
    assert listed(stocked, order="name") == names
    servers = ["files/read_file", "mail/read_mail", "mail/send_mail", "sql/drop_table"]
    assert listed(stocked, order="server") == servers
    where = {"not": {"field": "server", "equals": "mail"}}
    assert listed(stocked, order="name", where=where) == names[:2]


def test_a_list_by_use_begins_with_what_was_called_most_and_a_reader_sees_its_own_calls(
    service, stocked, namespace
):
    decision = stocked.post("/v1/route", json={"text": "mail Ana"}).json()["id"]
    for tool in ("sql/drop_table", "mail/send_mail", "sql/drop_table"):
        call = {"decision_id": decision, "tool": tool, "outcome": "success"}
        assert stocked.post("/v1/outcomes", json=call).status_code == 204
    page = stocked.post("/v1/tools/list", json={"order": "use"}).json()
    assert [tool["id"] for tool in page["tools"]][:2] == ["sql/drop_table", "mail/send_mail"]
    assert page["calls"] == {"sql/drop_table": 2, "mail/send_mail": 1}
    with service.client(namespace, access="read") as reader:
        assert "calls" not in reader.post("/v1/tools/list", json={"order": "use"}).json()


def test_a_sorted_list_whose_mark_is_gone_says_so(stocked):
    answer = stocked.post("/v1/tools/list", json={"order": "name", "cursor": "mail/gone"})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:toolcrib:problem:query")


def test_what_is_no_object_is_refused_and_keeps_no_tool_out(tenant):
    sent = [{"name": "send", "description": "Sends mail."}, "mail.json", ["x"]]
    report = tenant.post("/v1/tools", json={"tools": sent}).json()
    assert report["ids"]["added"] == ["send"]
    assert [each["place"] for each in report["refused"]] == ["[1]", "[2]"]
