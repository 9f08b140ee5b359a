"""Servers of a gateway over HTTP: by the access admin and a setting, and without any secret."""

from __future__ import annotations

import json

import pytest

from toolcrib.http import Anyone

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
DOCS = {"url": "https://docs.example.com/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}}
ISSUES = {"command": "npx", "args": ["-y", "issues"], "env": {"ISSUES_TOKEN": SECRET}}
ASKED = (
    ("GET", "/v1/servers", None),
    ("POST", "/v1/servers", {"document": {"mcpServers": {"evil": {"command": "sh"}}}}),
    ("POST", "/v1/servers/post", {"on": True}),
    ("DELETE", "/v1/servers/post", None),
)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {\n  // by hand\n  "post": {"command": "post-server"}\n}}\n')
    return path


@pytest.fixture
def beside(start, config):
    """A service that may change the servers of a gateway."""
    with start(gateway_config=str(config)) as started:
        yield started


@pytest.fixture
def admin(beside):
    with beside.client(access="admin", namespaces=("*",)) as client:
        yield client


def servers(admin):
    return {each["name"]: each for each in admin.get("/v1/servers").json()["servers"]}


def add(admin, document):
    return admin.post("/v1/servers", json={"document": document})


def test_servers_are_added_and_their_secrets_become_variables(admin, config):
    answer = add(admin, {"mcpServers": {"issues": ISSUES, "docs": DOCS}})
    assert answer.json()["added"] == ["issues", "docs"]
    assert answer.json()["variables"]["ISSUES_TOKEN"] == ["issues: env.ISSUES_TOKEN"]
    text = config.read_text()
    assert "// by hand" in text
    assert '"ISSUES_TOKEN": "${ISSUES_TOKEN}"' in text
    assert SECRET not in text + answer.text + admin.get("/v1/servers").text
    known = {"name": "issues", "target": "npx", "state": "on", "problem": ""}
    assert servers(admin)["issues"] == {**known, "variables": ["ISSUES_TOKEN"]}
    assert servers(admin)["docs"]["target"] == "docs.example.com"


def test_an_entry_of_the_mcp_registry_is_added(admin, config):
    package = {"registryType": "npm", "identifier": "@x/fs", "version": "1.0.0"}
    name = "io.github.x/fs"
    assert add(admin, {"name": name, "packages": [package]}).json()["added"] == [name]
    entry = json.loads(config.read_text().replace("// by hand", ""))["mcpServers"][name]
    assert (entry["command"], entry["args"]) == ("npx", ["-y", "@x/fs@1.0.0"])
    assert admin.delete(f"/v1/servers/{name}").status_code == 204
    assert set(servers(admin)) == {"post"}


def test_a_server_is_switched_off_on_and_removed(admin, config):
    for on, state in ((False, "off"), (True, "on")):
        assert admin.post("/v1/servers/post", json={"on": on}).status_code == 204
        assert servers(admin)["post"]["state"] == state
    assert "disabled" not in config.read_text()
    assert admin.delete("/v1/servers/post").status_code == 204
    assert servers(admin) == {}
    assert "// by hand" in config.read_text()


def test_what_is_not_there_or_names_no_server_is_an_error(admin, config):
    before = config.read_text()
    assert admin.post("/v1/servers/none", json={"on": True}).status_code == 404
    assert admin.delete("/v1/servers/..%2Fpost").status_code == 404
    assert add(admin, {"openapi": "3.1.0"}).status_code == 422
    assert config.read_text() == before


def test_a_broken_file_is_an_error_that_changes_nothing(admin, config):
    config.write_text("{broken")
    assert admin.get("/v1/servers").status_code == 422
    assert add(admin, {"mcpServers": {"issues": ISSUES}}).status_code == 422
    assert config.read_text() == "{broken"


@pytest.mark.parametrize("access", ["read", "write"])
@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_other_keys_see_and_change_none(beside, config, access, method, path, body):
    before = config.read_text()
    with beside.client(access=access, namespaces=("*",)) as client:
        assert client.request(method, path, json=body).status_code == 403
    assert config.read_text() == before


def test_without_the_setting_nothing_can_be_changed(service):
    with service.client(access="admin", namespaces=("*",)) as client:
        assert client.get("/v1/servers").json() == {"editable": False, "servers": []}
        for method, path, body in ASKED[1:]:
            answer = client.request(method, path, json=body)
            assert (answer.status_code, "gateway_config" in answer.text) == (403, True)


def test_a_service_without_keys_starts_nothing(start, config):
    beside = start(callers=Anyone(), gateway_config=str(config))
    with beside as started, started.anonymous() as client:
        for method, path, body in ASKED:
            assert client.request(method, path, json=body).status_code == 403
