"""Logins at servers that ask for authorisation: FastMCP's own authorisation server, over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass

import httpx2
import pytest
import uvicorn
from click.testing import Result
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from typer.testing import CliRunner

from tests.fork_server import ForkedProcess
from tests.gateway.conftest import LONG_S, Behind, found, said, until, web_server
from tests.gateway.test_command import ENV
from toolcrib.access import logins as logins_module
from toolcrib.access.logins import LoginOptions, Logins, SecretFiles, ServerLogin, may_log_in
from toolcrib.cli.app import app
from toolcrib.errors import ServiceUnavailableError, SettingsError, StoreUnavailableError
from toolcrib.gateway.serve import log_in
from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget
from toolcrib.indexers.readers.mcp_session import Authorisation
from toolcrib.settings import GatewaySettings

LOGIN = "toolcrib gateway login web"


@dataclass
class Guarded:
    """A server that asks for authorisation, beside its own authorisation server."""

    url: str
    provider: InMemoryOAuthProvider

    @property
    def target(self) -> HttpTarget:
        return HttpTarget(self.url)

    def end_tokens(self, *, refresh: bool = False) -> None:
        self.provider.access_tokens.clear()
        if refresh:
            self.provider.refresh_tokens.clear()


@asynccontextmanager
async def guarded(port: int = 0) -> AsyncGenerator[Guarded]:
    listener = socket.create_server(("127.0.0.1", port))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    registration = ClientRegistrationOptions(enabled=True, valid_scopes=["tools"])
    provider = InMemoryOAuthProvider(
        base_url=base, client_registration_options=registration, required_scopes=["tools"]
    )
    mcp = FastMCP("web", auth=provider)

    @mcp.tool
    def echo(word: str = "") -> dict[str, str]:
        """Repeat what is said."""
        return {"given": word}

    app = mcp.http_app(path="/mcp")
    config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield Guarded(f"{base}/mcp", provider)
    finally:
        server.should_exit = True
        await task


@pytest.fixture
async def web():
    async with guarded() as server:
        yield server


def logins(behind: Behind, **settings: object) -> Logins:
    chosen = GatewaySettings.model_validate(settings)
    return Logins.open(str(behind.store), chosen, lambda name: f"toolcrib gateway login {name}")


async def browse(link: str, answer: str = "") -> int:
    """Follow a link as a browser does; `answer` is what a person who refuses sends back."""
    async with httpx2.AsyncClient(timeout=LONG_S) as browser:
        if answer:
            asked = httpx2.URL(link).params
            back = f"{asked['redirect_uri']}?{answer}&state={asked['state']}"
        else:
            back = (await browser.get(link)).headers["location"]
        return (await browser.get(back)).status_code


async def enter(web: Guarded, kept: Logins, answer: str = "") -> bool:
    """Log in by a browser, which the authorisation server lets in at once."""
    browsers: list[asyncio.Task[int]] = []

    def show(link: str) -> None:
        browsers.append(asyncio.create_task(browse(link, answer)))

    try:
        how = LoginOptions(show, opens=False, timeout_s=LONG_S)
        return await log_in(web.target, kept, how)
    finally:
        await asyncio.gather(*browsers)


# -- logins ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_login_registers_a_client_and_keeps_tokens_for_their_owner_alone(behind, web):
    assert await enter(web, logins(behind))

    kept = await logins(behind).get(web.url)
    assert web.provider.access_tokens[kept.tokens.access_token].scopes == ["tools"]
    assert kept.client.client_id in web.provider.clients
    (file,) = (behind.store / "logins").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    assert logins(behind).delete(web.url)
    assert await logins(behind).get(web.url) is None
    assert not logins(behind).delete(web.url)


@pytest.mark.slow
async def test_a_secret_encrypts_the_files(behind, web):
    secret = logins(behind, logins_secret="correct horse")
    await enter(web, secret)

    (file,) = (behind.store / "logins").iterdir()
    kept = await secret.get(web.url)
    assert kept.tokens.access_token not in file.read_text()
    for other in (logins(behind, logins_secret="another"), logins(behind)):
        with pytest.raises(StoreUnavailableError, match="log in again"):
            await other.get(web.url)


async def test_without_a_keyring_the_error_says_what_to_set(behind, monkeypatch):
    import keyring
    from keyring.backends import fail

    monkeypatch.setattr(keyring.core, "_keyring_backend", fail.Keyring())
    with pytest.raises(StoreUnavailableError, match=r"gateway\.logins"):
        await logins(behind, logins="keyring").get("https://example.com/mcp")


async def test_the_keyring_keeps_a_login(behind, monkeypatch):
    import keyring
    from keyring.backends import null

    class Memory(null.Keyring):
        def __init__(self) -> None:
            self.kept: dict[tuple[str, str], str] = {}

        def get_password(self, service, username):
            return self.kept.get((service, username))

        def set_password(self, service, username, password):
            self.kept[service, username] = password

        def delete_password(self, service, username):
            del self.kept[service, username]

    monkeypatch.setattr(keyring.core, "_keyring_backend", Memory())
    url, kept = "https://example.com/mcp", logins(behind, logins="keyring")
    tokens = {"access_token": "a", "token_type": "Bearer"}
    login = ServerLogin.model_validate({"tokens": tokens, "client": {"client_id": "c"}})
    await kept.put(url, login)

    assert await kept.get(url) == login
    assert kept.delete(url)
    assert not kept.delete(url)
    assert not behind.store.exists()


def test_only_a_server_over_http_without_a_header_of_its_own_takes_a_login():
    assert may_log_in(HttpTarget("https://example.com/mcp", {"X-Team": "a"}))
    assert not may_log_in(HttpTarget("https://example.com/mcp", {"authorization": "Bearer t"}))
    assert not may_log_in(StdioTarget("server"))
    assert not may_log_in(None)


@pytest.mark.slow
async def test_a_login_that_is_refused_keeps_nothing(behind, web):
    with pytest.raises(ServiceUnavailableError, match="gave no login: Access was denied"):
        await enter(web, logins(behind), "error=access_denied")
    assert await logins(behind).get(web.url) is None


@pytest.mark.slow
async def test_a_server_that_asks_for_none_needs_no_login(behind):
    with web_server() as free:
        how = LoginOptions(lambda _link: None, opens=False, timeout_s=LONG_S)
        assert not await log_in(HttpTarget(free.url), logins(behind), how)
    assert not (behind.store / "logins").exists()


async def test_a_port_that_is_taken_is_named(behind):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        how = LoginOptions(lambda _link: None, port=taken.getsockname()[1])
        with pytest.raises(SettingsError, match="--port"):
            await log_in(HttpTarget("http://127.0.0.1:9/mcp"), logins(behind), how)


# -- in the gateway --------------------------------------------------------------------------------


async def state_of(client, name: str) -> dict[str, object]:
    answer = await client.call_tool("check_tools", {"ids": [name]})
    return answer.structured_content["tools"][0]


def waiting(reason: str) -> dict[str, object]:
    return {"id": "web/echo", "ready": False, "reason": reason, "login": LOGIN}


@pytest.mark.slow
async def test_a_server_waits_for_a_login_and_is_called_after_it(behind, web):
    gateway = behind.make({"web": {"url": web.url}}, logins=logins(behind))
    async with behind.client(gateway) as client:
        assert await state_of(client, "web/echo") == waiting("needs_authorisation")
        answer = await found(client)
        assert answer["missing"][0]["login"] == LOGIN
        assert (
            "warning",
            f"web: down: it needs authorisation: run `{LOGIN}`; the gateway retries",
        ) in (behind.said)

        await enter(web, logins(behind))
        await until(lambda: gateway.pool["web"].is_up)
        called = await client.call_tool(
            "call_tool", {"name": "web/echo", "arguments": {"word": "hi"}}
        )
        assert called.structured_content == {"given": "hi"}


@pytest.mark.slow
async def test_tokens_are_renewed_and_a_login_that_has_ended_is_told(behind, web):
    await enter(web, logins(behind))
    first = await logins(behind).get(web.url)
    gateway = behind.make({"web": {"url": web.url}}, logins=logins(behind))
    async with behind.client(gateway) as client:
        web.end_tokens()
        assert json.loads(await said(client, "web__echo", word="hi")) == {"given": "hi"}
        renewed = await logins(behind).get(web.url)
        assert renewed.tokens != first.tokens

        web.end_tokens(refresh=True)
        await until(lambda: gateway.pool.unready("web") == "authorisation_expired")
        assert await state_of(client, "web/echo") == waiting("authorisation_expired")
        hit = (await found(client))["tools"][0]
        assert (hit["state"], hit["login"]) == ("authorisation_expired", LOGIN)
        refused = await said(client, "web__echo")
        assert "must be authorised again, so web__echo was not called" in refused
        assert LOGIN in refused

        await enter(web, logins(behind))
        await until(lambda: gateway.pool["web"].is_up)
        assert json.loads(await said(client, "web__echo", word="hi")) == {"given": "hi"}


@pytest.mark.slow
async def test_several_gateways_renew_a_login_once(behind, web, monkeypatch):
    await enter(web, logins(behind))
    load = web.provider.load_refresh_token
    renewals = 0

    async def load_late(client, text):
        nonlocal renewals
        renewals += 1
        await asyncio.sleep(0.2)
        return await load(client, text)

    async def ask(auth) -> int:
        async with httpx2.AsyncClient(auth=auth, timeout=LONG_S) as client:
            return (await client.post(web.url, json={})).status_code

    monkeypatch.setattr(web.provider, "load_refresh_token", load_late)
    web.end_tokens()
    gateways = [logins(behind).auth(web.target) for _ in range(3)]
    assert 401 not in await asyncio.gather(*map(ask, gateways))
    assert renewals == 1

    # A lock that another process never gives back holds up nobody for long.
    monkeypatch.setattr(logins_module, "RENEWAL_TIMEOUT_S", 0.1)
    web.end_tokens()
    with SecretFiles(behind.store / "logins", "").lock(web.url):
        assert await ask(gateways[0]) != 401


def logging_in(*places: str) -> ForkedProcess:
    command = ("toolcrib", "gateway", "login", "web", "--no-browser", *places)
    return ForkedProcess(*command, env=ENV, stderr=subprocess.PIPE)


@pytest.mark.e2e
async def test_the_command_prints_the_link_and_logs_in(behind, web):
    config = behind.config(web={"url": web.url}, post=behind.entry("post"))
    places = ["--config", str(config), "--store", str(behind.store), "--json"]

    with closing(logging_in(*places)) as process:
        link = ""
        while not link.startswith("http"):
            link = await asyncio.to_thread(process.stderr.readline)
            assert link, "it ended without a link"
        assert await browse(link.strip()) == 200
        told = json.loads(await asyncio.to_thread(process.stdout.read))
        assert (told, process.wait()) == ({"server": "web", "logged_in": True}, 0)
    kept = await logins(behind).get(web.url)
    assert kept.tokens.access_token in web.provider.access_tokens

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["gateway", *words, *places])

    for was_kept in (True, False):
        assert json.loads(run("logout", "web").output)["logged_out"] is was_kept
    for name, reason in (("post", "takes no login"), ("wbe", "no server 'wbe'")):
        failed = run("login", name)
        assert isinstance(failed.exception, SettingsError)
        assert reason in str(failed.exception)


@pytest.mark.slow
async def test_commands_that_read_servers_use_a_kept_login(behind, web, monkeypatch):
    monkeypatch.chdir(behind.folder)
    monkeypatch.setattr(Authorisation, "of", Authorisation.of)
    kept = Logins.open(".toolcrib-gateway", GatewaySettings(), "toolcrib gateway login {}".format)
    command = ["audit", web.url, "--json"]
    before = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert await enter(web, kept)
    after = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert (before.exit_code, after.exit_code) == (1, 0)
    assert "gateway login" in json.loads(before.stdout)["refused"][0]["reason"]
    assert json.loads(after.stdout)["tools"] == 1
