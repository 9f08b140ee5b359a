"""Namespaces: cribs over one store, each of which looks like the only one."""

from __future__ import annotations

import time

import pytest

from tests.conftest import WITHOUT_MODELS as SETTINGS
from tests.store.qdrant_over_http import running
from toolcrib import Collection, Passage, ToolSpec, Turn
from toolcrib.errors import IndexMismatchError, QueryError, StoreDamagedError, StoreError
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.settings import EncoderSettings
from toolcrib.store.namespaced import check_name
from toolcrib.store.records_db import DbRow
from toolcrib.tenants import Tenants, count_shared, rebuild

MAIL = ToolSpec(name="send_mail", server="mail", description="Send a mail.", tags=["out"])
ROWS = ToolSpec(name="read_rows", server="sql", description="Read rows of a table.")
LEAVE = Passage(collection="handbook", document="leave.md", text="Everybody has 30 days of leave.")


@pytest.fixture
def many(tmp_path):
    with Tenants.open(tmp_path / "store", settings=SETTINGS) as opened:
        yield opened


def ids(crib):
    return sorted(tool.id for tool in crib.list_tools())


@pytest.mark.parametrize("location", ["store", "~/store"])
def test_a_change_of_the_current_folder_leaves_the_namespaces_where_they_are(
    tmp_path, monkeypatch, location
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Tenants.open(location, settings=SETTINGS) as opened:
        monkeypatch.chdir(tmp_path / "elsewhere")
        opened.crib("acme").index_tools([MAIL])
    assert not any((tmp_path / "elsewhere").iterdir())
    assert {each.name for each in tmp_path.iterdir()} == {"elsewhere", "store"}


class TestApart:
    def test_what_one_holds_no_other_sees_or_finds(self, many):
        acme, zoo = many.crib("acme"), many.crib("zoo")
        assert acme.tools.calibration_fingerprint() == zoo.tools.calibration_fingerprint()
        acme.index_tools([MAIL])
        assert zoo.find_tools("send a mail").tools == ()
        zoo.index_tools([ROWS])
        assert ids(many.crib("acme")) == ["mail/send_mail"]
        assert ids(many.crib("zoo")) == ["sql/read_rows"]
        assert ids(many.crib()) == []

    def test_passages_and_collections_are_ones_own(self, many):
        acme, zoo = many.crib("acme"), many.crib("zoo")
        acme.index_passages([LEAVE])
        zoo.add_collections(Collection(name="animals", description="Which animals live where."))
        assert [(each.name, count) for each, count in acme.list_collections()] == [("handbook", 1)]
        assert [(each.name, count) for each, count in zoo.list_collections()] == [("animals", 0)]
        assert many.crib().list_collections() == []
        found = acme.find_knowledge("how many days of leave has everybody?")
        assert [hit.passage.document for hit in found.passages] == ["leave.md"]

    def test_a_check_finds_damage_before_a_namespace_is_used(self, tmp_path):
        with Tenants.open(tmp_path / "store", settings=SETTINGS) as opened:
            opened.crib("acme").index_tools([MAIL])
            opened.check()
        [sums] = (tmp_path / "store" / "tenants").rglob("checksums.json")
        sums.write_text("{")
        with Tenants.open(tmp_path / "store", settings=SETTINGS) as opened:
            with pytest.raises(StoreDamagedError, match=r"checksums\.json"):
                opened.check()
            assert ids(opened.crib()) == []

    def test_a_check_removes_old_decisions_of_a_namespace_that_is_not_used(self, tmp_path):
        with Tenants.open(tmp_path / "store", settings=SETTINGS) as opened:
            opened.records_db.put("decisions/acme", DbRow("old", 0.0, {}))
            opened.records_db.put("decisions/acme", DbRow("new", time.time(), {}))
            opened.check()
        with Tenants.open(tmp_path / "store", settings=SETTINGS) as opened:
            assert [row.id for row in opened.records_db.read("decisions/acme")] == ["new"]

    def test_decisions_are_logged_apart(self, many):
        acme = many.crib("acme")
        acme.index_tools([MAIL])
        made = acme.turns.route(Turn(text="send a mail to Ana"), by="key-1")
        assert many.log("acme").find(made.id)["by"] == "key-1"
        assert many.log("zoo").find(made.id) is None


class TestLife:
    def test_everything_is_there_when_it_is_opened_again(self, tmp_path):
        with Tenants.open(tmp_path, settings=SETTINGS) as many:
            many.crib().index_tools([ROWS])
            many.crib("acme").index_tools([MAIL])
            many.crib("acme").index_passages([LEAVE])
        with Tenants.open(tmp_path, settings=SETTINGS) as many:
            assert many.names() == (DEFAULT_NAMESPACE, "acme")
            assert ids(many.crib()) == ["sql/read_rows"]
            assert ids(many.crib("acme")) == ["mail/send_mail"]
            assert many.crib("acme").knowledge.count() == 1

    def test_looking_makes_no_namespace(self, many):
        assert many.crib("acme").find_tools("send a mail").tools == ()
        assert many.crib("acme").route("send a mail").tools.tools == ()
        assert many.crib("acme").list_collections() == []
        assert many.names() == (DEFAULT_NAMESPACE,)

    def test_removing_one_leaves_the_others(self, many):
        for name in ("acme", "zoo"):
            many.crib(name).index_tools([MAIL])
            many.crib(name).index_passages([LEAVE])
        many.records_db.put("quarantine/acme", DbRow("a", 1.0, {}))
        many.remove("acme")
        assert many.names() == (DEFAULT_NAMESPACE, "zoo")
        assert ids(many.crib("acme")) == []
        assert many.records_db.get("quarantine/acme", "a") is None
        assert many.crib("zoo").knowledge.count() == 1

    @pytest.mark.parametrize("name", [DEFAULT_NAMESPACE, "acme"])
    def test_one_that_a_caller_closed_is_opened_again(self, many, name):
        for _ in range(2):
            with many.crib(name) as crib:
                crib.index_tools([MAIL])
                decision = crib.route("send a mail")
            assert many.log(name).find(decision.id)
        assert ids(many.crib(name)) == ["mail/send_mail"]

    def test_the_default_one_stays(self, many):
        with pytest.raises(QueryError, match="default"):
            many.remove(DEFAULT_NAMESPACE)

    def test_many_are_opened_and_forgotten(self, many, monkeypatch):
        monkeypatch.setattr("toolcrib.tenants.MAX_OPEN_CRIBS", 3)
        first = many.crib("n0")
        first.index_tools([MAIL])
        for number in range(1, 8):
            many.crib(f"n{number}")
        assert len(many._open_cribs) == 3
        assert ids(first) == ids(many.crib("n0")) == ["mail/send_mail"]

    @pytest.mark.parametrize("name", ["", "A", "a b", "../x", ":meta", "-a", "a" * 64, "ü", "a\n"])
    def test_a_name_is_small_and_plain(self, many, name):
        assert check_name("team-7.eu_west") == "team-7.eu_west"
        with pytest.raises(QueryError, match="no namespace"):
            many.crib(name)

    def test_a_closed_store_says_so(self, tmp_path):
        many = Tenants.open(tmp_path, settings=SETTINGS)
        many.close()
        with pytest.raises(StoreError):
            many.check()


class TestOtherModels:
    OTHER = SETTINGS.model_copy(update={"encoder": EncoderSettings(dense="deterministic:32")})

    def test_an_index_of_another_model_is_refused_then_rebuilt(self, tmp_path):
        with Tenants.open(tmp_path, settings=SETTINGS) as many:
            many.crib("acme").index_tools([MAIL])
            many.crib("acme").index_passages([LEAVE])
            many.crib("zoo").index_tools([ROWS])
        # The default namespace has nothing to rebuild.
        main = tmp_path / "moved"
        main.mkdir()
        (tmp_path / "tenants").rename(main / "tenants")
        with (
            Tenants.open(main, settings=self.OTHER) as many,
            pytest.raises(IndexMismatchError, match="rebuild"),
        ):
            many.crib("acme")
        rebuild(str(main), self.OTHER)
        assert count_shared(str(main), self.OTHER) == (2, 1)
        with Tenants.open(main, settings=self.OTHER) as many:
            assert many.names() == (DEFAULT_NAMESPACE, "acme", "zoo")
            assert ids(many.crib("acme")) == ["mail/send_mail"]
            assert ids(many.crib("zoo")) == ["sql/read_rows"]
            assert many.crib("acme").knowledge.count() == 1

    def test_a_service_answers_from_the_old_index_until_all_is_encoded(self):
        spaces, answers = (DEFAULT_NAMESPACE, "acme"), []
        with running() as server, Tenants.open(server.url, settings=SETTINGS) as old:
            for name in spaces:
                old.crib(name).index_tools([MAIL])
                old.announce_write(name)

            def look(_progress):
                a_while_later(old)
                old.check()
                answers.append([ids(old.crib(name)) for name in spaces])

            rebuild(server.url, self.OTHER, look)
            assert answers
            assert all(each == [["mail/send_mail"]] * 2 for each in answers)
            a_while_later(old)
            for name in spaces:
                with pytest.raises(IndexMismatchError):
                    old.crib(name)
            with Tenants.open(server.url, settings=self.OTHER) as new:
                assert [ids(new.crib(name)) for name in spaces] == [["mail/send_mail"]] * 2

    def test_a_rebuild_that_fails_leaves_every_namespace_as_it_was(self, tmp_path):
        with Tenants.open(tmp_path, settings=SETTINGS) as many:
            many.crib().index_tools([MAIL])
            many.crib("acme").index_tools([MAIL, ROWS])

        def fail(progress):
            if progress.total == 2:
                raise StoreError("the disk is full")

        with pytest.raises(StoreError, match="full"):
            rebuild(str(tmp_path), self.OTHER, fail)
        with Tenants.open(tmp_path, settings=SETTINGS) as many:
            assert ids(many.crib()) == ["mail/send_mail"]
            assert ids(many.crib("acme")) == ["mail/send_mail", "sql/read_rows"]


def a_while_later(many):
    """Have each crib look again for writes of other processes."""
    for opened in many._open_cribs.values():
        opened.checked_at = time.monotonic() - 60


class TestReplicas:
    """Two processes over one server see each other's writes soon."""

    @pytest.fixture
    def replicas(self):
        with running() as server:
            first = Tenants.open(server.url, settings=SETTINGS)
            second = Tenants.open(server.url, settings=SETTINGS)
            with first, second:
                yield first, second

    @pytest.mark.slow
    @pytest.mark.parametrize("name", [DEFAULT_NAMESPACE, "acme"])
    def test_what_one_writes_the_other_knows_after_a_while(self, replicas, name):
        first, second = replicas
        assert second.crib(name).list_collections() == []
        first.crib(name).index_tools([MAIL])
        first.crib(name).index_passages([LEAVE])
        first.announce_write(name)
        a_while_later(second)
        assert [each.name for each, _ in second.crib(name).list_collections()] == ["handbook"]
        found = second.crib(name).find_knowledge("how many days of leave has everybody?")
        assert [hit.passage.document for hit in found.passages] == ["leave.md"]

    @pytest.mark.slow
    @pytest.mark.parametrize("name", [DEFAULT_NAMESPACE, "acme"])
    def test_an_index_that_became_another_models_is_refused_until_it_is_ours_again(
        self, replicas, name
    ):
        first, second = replicas
        first.crib(name).index_tools([MAIL])
        first.announce_write(name)
        assert ids(second.crib(name)) == ["mail/send_mail"]
        store = first.crib(name).tools.store
        ours = store.read_meta()
        store.write_meta({"identity": {**ours["identity"], "dense": "another"}})
        first.announce_write(name)
        a_while_later(second)
        for _ in range(2):
            with pytest.raises(IndexMismatchError, match="another"):
                second.crib(name)
        store.write_meta(ours)
        assert ids(second.crib(name)) == ["mail/send_mail"]

    def test_who_wrote_does_not_look_again(self, replicas, monkeypatch):
        first, _ = replicas
        crib = first.crib("acme")
        crib.index_tools([MAIL])
        first.announce_write("acme")
        a_while_later(first)
        monkeypatch.setattr(type(crib), "refresh", lambda _: pytest.fail("looked again"))
        assert first.crib("acme") is crib


@pytest.mark.slow
def test_large_namespaces_get_shards_of_their_own_when_all_is_rebuilt():
    def sharded(*names):
        server = SETTINGS.server.model_copy(update={"tenant_shards": names or None})
        return SETTINGS.model_copy(update={"server": server})

    def filled(opened):
        return [ids(opened.crib(name)) for name in (DEFAULT_NAMESPACE, "acme", "zoo")]

    with running() as server:
        with Tenants.open(server.url, settings=sharded()) as opened:
            for name in (DEFAULT_NAMESPACE, "acme", "zoo"):
                opened.crib(name).index_tools([MAIL])
                opened.crib(name).index_passages([LEAVE])
            before = filled(opened)
        rebuild(server.url, sharded("acme"))
        made = [r.path.split("/")[2] for r in server.requests if r.path.endswith("/shards")]
        assert {*made} >= {"toolcrib-tenants.g0002", "toolcrib-tenants-library.g0002"}
        with Tenants.open(server.url, settings=sharded()) as opened:
            assert filled(opened) == before
            opened.crib("acme").index_tools([ROWS])
            assert opened.crib("acme").find_tools("read rows").tools[0].id == ROWS.id
            found = opened.crib("zoo").find_knowledge("how many days of leave has everybody?")
            assert [hit.passage.document for hit in found.passages] == ["leave.md"]
