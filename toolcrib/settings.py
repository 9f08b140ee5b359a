"""Settings of `toolcrib.yaml` and `TOOLCRIB_*`; no other module reads settings from variables."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from toolcrib.context.settings import ContextSettings
from toolcrib.encoders.lexical import LexicalSettings
from toolcrib.errors import SettingsError, did_you_mean, nearest
from toolcrib.indexers.points import FieldWeights
from toolcrib.records import Collection, Sensitivity
from toolcrib.records.codec import (
    UNKNOWN_FIELD,
    adapter,
    faults,
    is_object,
    object_of,
    settings_section,
)
from toolcrib.records.turns import ModelUse, Price
from toolcrib.retrieval.fusion import FusionWeights, PassageWeights
from toolcrib.retrieval.gate import GateSettings
from toolcrib.retrieval.options import InterleaveSettings
from toolcrib.retrieval.rerank import RerankSettings
from toolcrib.router.settings import (
    AgentSettings,
    CapabilitySettings,
    KnowledgeSettings,
    Limits,
    OrchestrationMode,
    RecoverySettings,
    TelemetrySettings,
    ToolSettings,
)

if TYPE_CHECKING:
    from toolcrib.documents.processes import ConversionLimits

FILE_NAME = "toolcrib.yaml"
VARIABLE_PREFIX = "TOOLCRIB_"

_KUBERNETES_VARIABLE = "KUBERNETES_SERVICE_HOST"
"""Variable that Kubernetes sets in every pod."""

_SERVICE_VARIABLE = re.compile(
    r"\A.*_(SERVICE_(HOST|PORT(_.+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)"
)
"""Variables that Kubernetes sets in every pod beside a service with the name toolcrib."""


class _Section(BaseModel):
    """Base of all sections; refuses infinite numbers, so that every timeout ends."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EncoderSettings(_Section):
    """Models that encode texts and rerank tools.

    `dense`: `bundled`, `multilingual`, `deterministic`, `fastembed:NAME` or
    `sentence-transformers:NAME`.
    `reranker`: none, `llm`, `bundled:FOLDER`, `fastembed:NAME` or `sentence-transformers:NAME`.
    `threads`: for encoding documents; 0 means all cores.
    """

    dense: str = "bundled"
    reranker: str | None = None
    threads: int = Field(default=0, ge=0)


@settings_section
class LearningSettings:
    """Learning of tools' examples from requests that ended in a successful call.

    The words of requests are kept if `telemetry.text` allows it, else only vectors. `runs`: the
    calls of past runs re-order the tools for later steps.
    """

    enabled: bool = False
    runs: bool = True


class ServerSettings(_Section):
    """Connection to a Qdrant server, if the store is a URL, and the layout of its collections.

    The last five apply when a collection is made; null leaves them to the server, or unchanged
    when an index is rebuilt. `on_disk`: vectors, graph and words are read from the disk.
    `quantization`: form in which vectors are searched; null is `int8`. `tenant_shards`: the
    namespaces that get `shards` of their own, while all other namespaces share one; null for no
    such shards.
    """

    api_key: SecretStr | None = None
    collection: str = Field(default="toolcrib", min_length=1)
    timeout_s: float = Field(default=10.0, gt=0)
    shards: int | None = Field(default=None, ge=1)
    replicas: int | None = Field(default=None, ge=1)
    on_disk: bool | None = None
    quantization: Literal["int8", "none"] | None = None
    tenant_shards: tuple[str, ...] | None = None


class ModelUseSettings(_Section):
    """Model and timeout of one use of language models."""

    model: str | None = None
    timeout_s: float | None = Field(default=None, gt=0)


def secret_text(secret: SecretStr | None) -> str | None:
    """Text of a secret, if there is one."""
    return secret.get_secret_value() if secret else None


class LanguageModelSettings(_Section):
    """Language model for the steps that can use one; without a `model` no step does.

    `protocol`: `openai`, which most servers offer, or `anthropic`. `base_url`: null for the
    provider's own. The key comes from the environment, or from the file `api_key_file`.
    `uses`: model and timeout of each use. At most `parallel` requests to a server at once, over
    all uses; each is made up to `attempts` times. `temperature`: null leaves it to the server.
    `prices`: by model, for the accounting. `log_text`: prompts and answers may be logged.
    """

    protocol: Literal["openai", "anthropic"] = "openai"
    base_url: str | None = Field(default=None, pattern=r"^https?://")
    model: str | None = None
    api_key: SecretStr | None = None
    api_key_file: str | None = None
    uses: dict[ModelUse, ModelUseSettings] = Field(default_factory=dict[ModelUse, ModelUseSettings])
    parallel: int = Field(default=5, ge=1)
    attempts: int = Field(default=3, ge=1)
    temperature: float | None = Field(default=0.0, ge=0)
    prices: dict[str, Price] = Field(default_factory=dict[str, Price])
    log_text: bool = False

    def key(self) -> str | None:
        """The key, if there is one.

        Raises:
            SettingsError: the file cannot be read.
        """
        if self.api_key_file is None:
            return secret_text(self.api_key)
        try:
            return Path(self.api_key_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"llm.api_key_file: {self.api_key_file}: {error}") from error


class DocumentSettings(_Section):
    """Conversion of documents, and their split into passages of at most about `max_tokens` tokens.

    A document is converted by a process of its own, which is ended after `timeout_s` and may
    take `memory_mb`; a document that exceeds either limit is refused.
    """

    max_tokens: int = Field(default=200, ge=1)
    timeout_s: float = Field(default=120.0, gt=0)
    memory_mb: int = Field(default=1024, ge=128)

    @property
    def limits(self) -> ConversionLimits:
        """Limits of time and memory on the conversion of one document."""
        from toolcrib.documents.processes import ConversionLimits

        return ConversionLimits(self.timeout_s, self.memory_mb * 2**20)


class ServiceSettings(_Section):
    """Service of `toolcrib serve`.

    `workers` threads search. At most `concurrent` requests run or wait at once, further
    requests are refused; each has `timeout_s`. A namespace may use a `share` of the requests
    and bytes that other namespaces leave, and a key the same share of its namespace's. A body
    has `body_s` to arrive, and more with every byte received. `rate` limits the requests of a
    key in each process, as `LIMIT/second`, `/minute` or `/hour`.
    `drain_s`: time for running requests when the service stops. Decisions are kept for
    `keep_days`. `approve_own`: a key may approve tools that it sent itself, for single users.
    `trace_text`: traces have users' words. `reports`: folder of evaluation reports for the console.
    `gateway`: store of a gateway whose activity is shown; default: the service's own store.
    `gateway_config`: the `mcp.json` of a gateway, to which keys with the access admin may add
    servers, and so commands that the gateway starts.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8642, ge=0, le=65_535)
    concurrent: int = Field(default=64, ge=1)
    workers: int = Field(default=2, ge=1)
    share: float = Field(default=0.75, gt=0, le=1)
    timeout_s: float = Field(default=10.0, gt=0)
    body_s: float = Field(default=5.0, gt=0)
    max_body_bytes: int = Field(default=8 * 2**20, ge=1024)
    rate: str | None = Field(default=None, pattern=r"^[1-9]\d*/(second|minute|hour)$")
    drain_s: float = Field(default=20.0, ge=0)
    keep_days: float = Field(default=30.0, gt=0)
    approve_own: bool = False
    trace_text: bool = False
    log_format: Literal["json", "text"] = "json"
    reports: str | None = None
    gateway: str | None = None
    gateway_config: str | None = None


class TokenSettings(_Section):
    """Tokens of an issuer (OAuth, OpenID Connect) that callers may send in place of a key.

    A token is a JWT of the `issuer` for the `audience`, best the public URL of this service or
    gateway, signed by a key at `jwks_url` (default: as the issuer's metadata say). `scopes`: what
    a token with a scope is granted, in the fields of a key's grant; the first scope that a token
    has counts.
    """

    issuer: str = Field(pattern=r"^https?://")
    audience: str = Field(min_length=1)
    jwks_url: str | None = Field(default=None, pattern=r"^https?://")
    scopes: dict[str, dict[str, Any]] = Field(min_length=1)


FlowMode: TypeAlias = Literal["off", "ask", "refuse"]
CallTools: TypeAlias = Literal["one", "by_risk"]
ActivityMode: TypeAlias = Literal["off", "calls", "arguments"]


class ProfileSettings(_Section):
    """Profile of the gateway, which `--profile` chooses: a part of its tools, and other settings.

    `include` and `exclude` are globs of ids (`SERVER/NAME`); exclude wins. Empty lists restrict
    nothing. The other fields are those of the gateway; without a value the gateway's own holds.
    """

    servers: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    max_sensitivity: Sensitivity | None = None
    pinned: tuple[str, ...] | None = None
    pass_through: int | None = Field(default=None, ge=0)
    k: int | None = Field(default=None, ge=1, le=50)
    token_budget: int | None = Field(default=None, ge=1)
    max_calls: int | None = Field(default=None, ge=1)


class GatewaySettings(_Section):
    """Gateway of `toolcrib gateway` in front of MCP servers.

    Up to `pass_through` tools are all shown. `pinned` are ids of tools that are always shown. A
    search returns `k` tools, or as many as fit into `token_budget`, as signatures or with their
    whole `schemas`. A call has `call_timeout_s`; at most `max_calls` follow one `find_tools`. A
    failed server is tried again after `retry_s`. `lock`: file of approved digests.
    `guidance`: append a hint to a result if the agent is stuck. `flow`: `ask` the user about, or
    `refuse`, a call that could send private data out after untrusted text was read.
    `call_tools`: call found tools by `one` tool, or by three with annotations, `by_risk`.
    `logins`: place of logins at servers, files beside the store or the system's `keyring`; the
    files are encrypted by `logins_secret`. `profiles`: parts of the gateway, by name.
    `activity`: record nothing, `calls`, or calls with `arguments`, beside the store.
    """

    pass_through: int = Field(default=30, ge=0)
    pinned: tuple[str, ...] = ()
    k: int = Field(default=5, ge=1, le=50)
    token_budget: int | None = Field(default=None, ge=1)
    schemas: bool = False
    call_timeout_s: float = Field(default=30.0, gt=0)
    max_calls: int | None = Field(default=None, ge=1)
    connect_timeout_s: float = Field(default=20.0, gt=0)
    retry_s: float = Field(default=5.0, gt=0)
    lock: str = "toolcrib.lock"
    guidance: bool = True
    flow: FlowMode = "off"
    activity: ActivityMode = "calls"
    call_tools: CallTools = "one"
    logins: Literal["file", "keyring"] = "file"
    logins_secret: SecretStr | None = None
    profiles: dict[str, ProfileSettings] = Field(default_factory=dict[str, ProfileSettings])

    def profile(self, name: str) -> ProfileSettings:
        """Profile of this name.

        Raises:
            SettingsError: no profile has this name.
        """
        if name not in self.profiles:
            hint = did_you_mean(nearest(name, self.profiles))
            mend = "; add it to the settings, or name their file: toolcrib --settings FILE ..."
            raise SettingsError(f"gateway.profiles has no {name!r}{hint or mend}")
        return self.profiles[name]

    def with_profile(self, profile: ProfileSettings) -> Self:
        """Copy with the settings of a profile."""
        own = set(type(self).model_fields)
        return self.model_copy(update=profile.model_dump(include=own, exclude_none=True))


SECRET_SETTINGS = (
    ("llm", "api_key", ", or let llm.api_key_file name a file that holds nothing else"),
    ("gateway", "logins_secret", ""),
)
"""Section and name of each secret that no file may hold, and the other way to give it."""


def _variables() -> dict[str, Any]:
    """Settings in the variables `TOOLCRIB_*`; unknown variables by their whole names.

    `TOOLCRIB_GATE__THRESHOLD` is `gate.threshold`. JSON objects and arrays are read as such.
    """
    content: dict[str, Any] = {}
    # The shortest name first: the variable of a section may hold all of it, as JSON.
    for name, text in sorted((name.upper(), text) for name, text in os.environ.items()):
        if not name.startswith(VARIABLE_PREFIX):
            continue
        steps = name.removeprefix(VARIABLE_PREFIX).lower().split("__")
        found = Settings.model_fields.get(steps[0])
        if found is None or (len(steps) > 1 and found.annotation is str):
            if _KUBERNETES_VARIABLE not in os.environ or not _SERVICE_VARIABLE.fullmatch(name):
                content[name] = text
            continue
        value: Any = text
        if text.lstrip()[:1] in ("{", "["):
            with suppress(ValueError):
                value = json.loads(text)
        for step in reversed(steps):
            value = {step: value}
        content = _merge_layers([content, value])
    return content


def _merge_layers(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge layers of settings, name by name in every section; a later layer wins."""
    content: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            below = content.get(name)
            if is_object(below) and is_object(value):
                content[name] = _merge_layers([below, value])
            else:
                content[name] = value
    return content


class Settings(BaseModel):
    """All settings; the defaults need no file and no variable.

    `store`: place of the index, a folder or a Qdrant server's URL. `audit`: hold back tools whose
    text is dangerous to a model, and tools that a server behind the gateway changes later.
    `durability`: with `disk` an acknowledged write to a folder survives a power failure, with
    `system` only the end of the process. `questions`: files of questions to classify turns by, by
    name. `enrichments`: place of a model's texts from `toolcrib enrich`, a file beside the sources
    or the database of records beside the index. `orchestration_mode`: mode in which
    `router.choices.flow` leads an agent's loop. With `url` the commands use the service there,
    with `api_key` and `namespace`.
    """

    # Dataclasses among the sections take this over; those of a `_Section` have their own.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    store: Annotated[str, Field(min_length=1), AfterValidator(os.path.expanduser)] = ".toolcrib"
    url: str | None = None
    api_key: SecretStr | None = None
    namespace: str | None = None
    audit: bool = True
    durability: Literal["disk", "system"] = "disk"
    encoder: EncoderSettings = EncoderSettings()
    lexical: LexicalSettings = LexicalSettings()
    fields: FieldWeights = FieldWeights()
    fusion: FusionWeights = FusionWeights()
    rerank: RerankSettings = RerankSettings()
    gate: GateSettings = GateSettings()
    interleave: InterleaveSettings = InterleaveSettings()
    tools: ToolSettings = ToolSettings()
    passages: PassageWeights = PassageWeights()
    documents: DocumentSettings = DocumentSettings()
    knowledge: KnowledgeSettings = KnowledgeSettings()
    collections: tuple[Collection, ...] = ()
    context: ContextSettings = ContextSettings()
    questions: dict[str, str] = Field(default_factory=dict[str, str])
    agents: AgentSettings = AgentSettings()
    capabilities: CapabilitySettings = CapabilitySettings()
    orchestration_mode: OrchestrationMode = "plan_first"
    limits: Limits = Limits()
    recovery: RecoverySettings = RecoverySettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    learning: LearningSettings = LearningSettings()
    enrichments: Literal["file", "database"] = "file"
    llm: LanguageModelSettings = LanguageModelSettings()
    server: ServerSettings = ServerSettings()
    service: ServiceSettings = ServiceSettings()
    gateway: GatewaySettings = GatewaySettings()
    tokens: TokenSettings | None = None

    def __init__(self, **given: Any) -> None:
        if isinstance(own := given.get("collections"), list | tuple):
            # Dumped in full, unset fields would override those of a preset.
            given["collections"] = [
                each.model_dump(exclude_unset=True) if isinstance(each, Collection) else each
                for each in cast("Sequence[object]", own)
            ]
        super().__init__(**_merge_layers([_variables(), adapter(dict).dump_python(given)]))

    @model_validator(mode="before")
    @classmethod
    def _move_reranker_name(cls, given: Any) -> Any:
        """`rerank: llm` is short for `encoder.reranker: llm`."""
        content = cast("dict[str, Any]", given)
        if not isinstance(given, dict) or not isinstance(name := content.get("rerank"), str):
            return content
        encoder: Any = content.get("encoder", {})
        fields = encoder.model_dump() if isinstance(encoder, EncoderSettings) else encoder
        rest = {key: value for key, value in content.items() if key != "rerank"}
        return {**rest, "encoder": {**fields, "reranker": name}}

    @model_validator(mode="after")
    def _require_unique_collections(self) -> Self:
        named = [each.name for each in self.collections]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise SettingsError(f"collections: {', '.join(twice)} are given more than once")
        return self

    @model_validator(mode="after")
    def _require_known_labels(self) -> Self:
        pairs: list[tuple[str, tuple[str, str | None]]] = [
            ("knowledge.map", (each.domain, each.intent)) for each in self.knowledge.entries
        ]
        for each in self.collections:
            pairs += [(f"the collection {each.name!r}", pair) for pair in each.answers]
        if pairs:
            # Only here, since labels are read from files.
            from toolcrib.context.labels import map_labels, unknown_labels

            labels = map_labels(self.context.labels, self.context.cues)
            if wrong := [what for what, _ in unknown_labels(pairs, labels)]:
                raise SettingsError("; ".join(wrong))
        return self

    def without_reranker(self) -> Settings:
        """Copy of the settings without a reranker."""
        encoder = self.encoder.model_copy(update={"reranker": None})
        return self.model_copy(update={"encoder": encoder})


def load_settings(file: Path | None = None) -> Settings:
    """Read `file`, or `toolcrib.yaml` in the current folder if there is one; variables win.

    Raises:
        SettingsError: the file is missing, no YAML, or has another ending; or a setting is unknown
            or impossible.
    """
    if file is not None and not file.is_file():
        raise SettingsError(f"there is no settings file {str(file)!r}")
    path = file or Path(FILE_NAME)
    if not path.is_file() and (other := path.with_suffix(".yml")).is_file():
        raise SettingsError(f"{other} is not read: rename it to {path}")
    try:
        return Settings(**_merge_layers([_read_file(path), _variables()]))
    except ValidationError as error:
        wrong = (f"{name}: {_reason(name, why)}" for name, why in faults(error, "the settings"))
        raise SettingsError(f"{path} or TOOLCRIB_*: {'; '.join(wrong)}") from error


def _read_file(path: Path) -> dict[str, Any]:
    """Content of a file of settings, which may be committed to a repository: no `SECRET_SETTINGS`.

    Raises:
        SettingsError: the file is unreadable or no YAML mapping, or holds a secret.
    """
    if not path.is_file():
        return {}
    from toolcrib.parsing import decode, parse_yaml

    try:
        content = parse_yaml(decode(path.read_bytes()))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        # Not the line, nor the error as the cause: the text there may be a key.
        raise SettingsError(f"{path} is {error}") from None
    if content is None:
        return {}
    if not is_object(content):
        raise SettingsError(f"{path} is not a YAML mapping: it holds {content!r:.40}")
    for section, name, way_out in SECRET_SETTINGS:
        if name in object_of(content.get(section)):
            variable = f"{VARIABLE_PREFIX}{section}__{name}".upper()
            raise SettingsError(
                f"{section}.{name} is a secret, and no settings file may hold it: set "
                f"{variable}{way_out}"
            )
    return content


def _reason(name: str, reason: str) -> str:
    """Reason why a setting is refused; for an unknown setting, the known settings like it."""
    if reason != UNKNOWN_FIELD:
        return reason
    schema = Settings.model_json_schema()
    known = list(_names(schema, schema["$defs"]))
    if name.startswith(VARIABLE_PREFIX):
        own = name.removeprefix(VARIABLE_PREFIX).lower().replace("__", ".")
        near = [VARIABLE_PREFIX + each.replace(".", "__").upper() for each in nearest(own, known)]
    else:
        near = nearest(".".join(step for step in name.split(".") if not step.isdecimal()), known)
    return f"there is no such setting{did_you_mean(near)}"


def _names(schema: Mapping[str, Any], known: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Dotted names of all sections and settings; `known` are the schemas that `$ref` names."""
    own = known.get(schema.get("$ref", "").rpartition("/")[2], schema)
    for name, inner in own.get("properties", {}).items():
        yield before + name
        yield from _names(inner.get("items", inner), known, f"{before}{name}.")
