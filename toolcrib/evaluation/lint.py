"""Lint of a registry: searches for every tool by its own texts, and checks all texts.

The tools go into a temporary index, without their example requests, so that no request finds its
own copy. The work grows with the number of tools; ten thousand take some minutes on two cores.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from toolcrib import build
from toolcrib.audit import Severity, audit_all
from toolcrib.crib import Crib
from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.language import language_of
from toolcrib.errors import QueryError
from toolcrib.extras import require_extra
from toolcrib.indexers.points import clean
from toolcrib.integrations.providers import (
    Definition,
    Provider,
    first_names,
    fit_definition,
    refusals,
)
from toolcrib.records import ToolSpec
from toolcrib.records.codec import list_of, object_of
from toolcrib.retrieval.legs import has_words
from toolcrib.settings import Settings
from toolcrib.text import name_words, split_identifier, tokenise

# -- rules and their findings ----------------------------------------------------------------------

LintSeverity: TypeAlias = Literal["info", "warning", "error"]

LINT_SEVERITIES: tuple[LintSeverity, ...] = ("info", "warning", "error")
"""Severities, the lowest first: worth a look; costs calls; not findable, or must not be served."""

MAX_NEAR_RANK = 5
"""Number of tools that an agent gets by default."""

SearchKind: TypeAlias = Literal["purpose", "example", "parameters"]


@dataclass(frozen=True, slots=True)
class SelfSearch:
    """Result of a search by one of a tool's own texts.

    `rank` counts from 1, None if the tool is not among the first `SEARCH_DEPTH`; `other`: id of the
    best other tool, empty without one. `lead`: the tool's score minus the other's, in [-1, 1].
    """

    kind: SearchKind
    text: str
    rank: int | None
    other: str
    lead: float

    @property
    def is_near(self) -> bool:
        """True if an agent that searches by this text gets the tool."""
        return self.rank is not None and self.rank <= MAX_NEAR_RANK


@dataclass(frozen=True, slots=True)
class LintInput:
    """Tools that rules read, and the searches by each tool's own texts, its purpose first.

    `providers`: those whose rules the definitions must follow.
    """

    tools: Sequence[ToolSpec]
    searches: Mapping[str, Sequence[SelfSearch]] = field(default_factory=dict[str, Any])
    providers: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem of one tool, as a rule yields it: `text` has the problem and the remedy.

    `others`: further tools in the problem. `severity` defaults to the rule's; `part`: a rule within
    the rule.
    """

    tool: str
    text: str
    others: tuple[str, ...] = ()
    severity: LintSeverity | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """Finding: `text` has the problem and the remedy; `others`: further tools in it.

    `tool` and `others` are ids. Rules of the audit are called `audit/...`.
    """

    rule: str
    severity: LintSeverity
    tool: str
    text: str
    others: tuple[str, ...] = ()


Check: TypeAlias = Callable[[LintInput], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class LintRule:
    """Rule, and the function that finds its problems."""

    name: str
    severity: LintSeverity
    title: str
    check: Check


LINT_RULES: dict[str, LintRule] = {}


def lint_rule(name: str, severity: LintSeverity, title: str) -> Callable[[Check], Check]:
    """Register the decorated function as a rule."""

    def register(check: Check) -> Check:
        LINT_RULES[name] = LintRule(name, severity, title, check)
        return check

    return register


def apply_rules(given: LintInput, ignored: Collection[str] = ()) -> Iterator[LintFinding]:
    """Findings of all rules but `ignored` ones; `audit` stands for all `audit/...`."""
    for rule in LINT_RULES.values():
        if rule.name in ignored:
            continue
        for each in rule.check(given):
            name = f"{rule.name}/{each.part}" if each.part else rule.name
            if name not in ignored:
                severity = each.severity or rule.severity
                yield LintFinding(name, severity, each.tool, each.text, each.others)


# -- the parts of a text ---------------------------------------------------------------------------

MAX_PURPOSE_CHARS = 300
_END = re.compile(r"[.!?](?=\s|$)|[。！？]")
MIN_SENTENCE_CHARS, MIN_WIDE_SENTENCE_CHARS = 24, 4
"""Minimum length, in letters or in Chinese characters, of a sentence that states a purpose.

"Transformers." and "Billboard U.S." do not.
"""


def purpose_of(spec: ToolSpec) -> str:
    """Purpose of a tool: the first sentence of its description, otherwise its name."""
    text = clean(spec.description)
    ends = (
        end.end()
        for end in _END.finditer(text)
        if end.start() >= (MIN_SENTENCE_CHARS if end.group().isascii() else MIN_WIDE_SENTENCE_CHARS)
    )
    sentence = text[: min(next(ends, MAX_PURPOSE_CHARS), MAX_PURPOSE_CHARS)]
    return sentence if has_words(sentence) else " ".join(split_identifier(spec.name)) or spec.name


_HEADING = r"\b(?:args|arguments|parameters|params|inputs?)\b"
_ARGUMENTS = re.compile(
    rf"{_HEADING}[^:.\n]{{0,30}}:|^\W{{0,8}}{_HEADING}\W{{0,8}}$|(?<!\S):param\b",
    re.IGNORECASE | re.MULTILINE,
)
_ARGUMENT = re.compile(
    r"(?<!\S)[-*`:]{0,3}(?:param )?([\w.-]{1,80}+)[*`]{0,2}(?: {0,8}\([^()]{0,80}\))? {0,8}:\s"
    r"([^\n]+)"
)


def parameters_of(spec: ToolSpec) -> Mapping[str, str]:
    """Parameters of a tool, each with its description in the schema or in a section `Args:`."""
    schema, _ = fit_definition(spec.input_schema, "")
    section = _ARGUMENTS.search(spec.description)
    start = section.end() if section else len(spec.description)
    listed = {each[1]: each[2] for each in _ARGUMENT.finditer(spec.description, start)}
    return {
        name: _description_in(given) or clean(listed.get(name, ""))
        for name, given in object_of(schema.get("properties")).items()
    }


def _description_in(schema: Any) -> str:
    """Description of a parameter, else of an alternative or an item of it."""
    parts = [schema]
    for given in map(object_of, parts):
        if isinstance(text := given.get("description"), str) and clean(text):
            return clean(text)
        parts += [part for word in ("allOf", "anyOf", "oneOf") for part in list_of(given.get(word))]
        parts += [given["items"]] if "items" in given else []
    return ""


_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def own_words(spec: ToolSpec, other: ToolSpec, most: int = 5) -> tuple[str, ...]:
    """Words of the name and description that the other tool lacks, in their order."""
    # In a longer text, stop words are gone.
    apart = set(tokenise(_text(spec))) - set(tokenise(_text(other)))
    found: dict[str, str] = {}
    for word in _WORD.findall(_text(spec)):
        terms = tokenise(word)
        # The letters of "e.g." tell no tools apart.
        if len(word) > 1 and set(terms) <= apart:
            found.setdefault(terms[0], word.lower())
    return tuple(found.values())[:most]


def _text(spec: ToolSpec) -> str:
    return f"{' '.join(split_identifier(spec.name))} {clean(spec.description)}"


# -- one tool --------------------------------------------------------------------------------------

MAX_DESCRIPTION_WORDS = 200
"""About the length that the bundled encoder reads: 256 tokens."""

_VERBS = (
    "abort accept access acknowledge acquire activate adapt add adjust aggregate alert allocate "
    "allow analyse analyze annotate answer append apply approve archive arrange ask assess assign "
    "associate attach audit authenticate authorize autocomplete backup ban batch begin bind block "
    "are can cat chmod cp curl du exec grep has is kill ls mkdir mv ps pwd rm ssh tail "
    "book bookmark browse build bulk buy calc calculate call cancel capture cast change chat "
    "check checkout choose claim classify clean clear click clone close collect combine comment "
    "commit compare compile complete compose compress compute configure confirm connect consult "
    "consume continue control convert copy correct count crawl create crop cut deactivate debug "
    "decline decode decompose decrease decrypt deduplicate define delegate delete deliver demote "
    "deny deploy deposit deregister derive describe design detach detect determine diagnose diff "
    "disable disassemble disassociate discard disconnect discover dismiss dispatch display do "
    "download draft drag drain draw drop dump duplicate echo edit eject elicit embed enable "
    "encode encrypt end enforce enqueue enrich enroll ensure enumerate erase estimate evaluate "
    "examine exchange execute expand expire explain explore export extend extract fail fetch fill "
    "filter find finish fix flag flash flatten flip focus follow forecast fork format forward "
    "freeze fuse gather gen generate geocode get give go grant graph group guess handle hide "
    "highlight hold hover identify ignore import improve include increase increment index infer "
    "inform ingest init initialize initiate insert inspect install instantiate interpolate "
    "interpret intersect introspect invalidate investigate invite invoke issue join judge keep "
    "kill launch learn leave like limit link lint list listen load locate lock log login logout "
    "lookup make manage map mark match measure merge migrate mint mirror mock modify monitor move "
    "multiply mute navigate normalize notify obtain open optimise optimize order organize "
    "paginate parse patch pause pay peek perform pick pin ping place plan play plot poll pop post "
    "predict prepare press preview print prioritize process profile promote prompt propose "
    "protect provision proxy prune publish pull purchase purge push put query queue quit quote "
    "rank rate read reboot rebuild recall receive recognize recommend record recover redeem "
    "redirect reduce refactor refine refresh refund register reindex reject release reload "
    "relocate remember remind remove rename render renew reopen reorder repair repeat replace "
    "replay reply report repost request require reschedule research reserve reset resize resolve "
    "respond restart restore restrict resume retrieve retry return reverse revert review revoke "
    "rewrite roll rollback rotate route run sample sanitize save say scale scan schedule score "
    "scrape screen screenshot scroll search seek segment select sell send serialize set setup "
    "share shorten show shuffle shutdown sign simulate skip sleep snapshot solve sort spawn speak "
    "split stage star start stat stop store stream structure stub submit subscribe subtract "
    "suggest sum summarise summarize summary suspend swap switch sync synchronize synthesize tag "
    "take tap terminate test think tile toggle trace track train transcribe transfer transform "
    "translate transpose traverse trigger trim truncate try turn type unarchive unassign unban "
    "unblock undelete undeploy undo unfollow uninstall unlink unlock unmute unpin unpublish "
    "unregister unstar unsubscribe untag update upgrade upload upsert use validate verify view "
    "visualise visualize vote wait walk warn watch withdraw wrap write zip zoom"
)
VERBS = frozenset(_VERBS.split())
"""Verbs in the names of tools, in lower case."""

_VAGUE = (
    "action api call command do execute function handle handler invoke manage method operation "
    "perform process query request run task tool use"
)
VAGUE_WORDS = frozenset(_VAGUE.split())
"""Words for any action."""

_ENGLISH = re.compile(r"[A-Za-z]")
_TRAILS_OFF = re.compile(
    r"(?:\.{3}|…|[,(\[{&+]|\b(?:an?|and|because|into|its|or|such as|than|the|their|your))\Z",
    re.IGNORECASE,
)
"""Ends of cut sentences; `to` or `in` may end one, as in "the teams that a user belongs to"."""

_LAST_WORD = re.compile(r"\w\Z")
MIN_CUT_CHARS, MIN_CUT_DESCRIPTIONS = 50, 3

_LISTS = re.compile(r"(?:etc\.?|[Ee]\.g\.|\w, ?)\.{3}\Z")


@lint_rule("no-description", "error", "there is no description")
def _without_description(given: LintInput) -> Iterator[Problem]:
    for spec in given.tools:
        if not clean(spec.description):
            text = "it has no description: state in a sentence its action, object and use"
            yield Problem(spec.id, text)


@lint_rule("thin-description", "info", "the description adds little to the name")
def _thin_descriptions(given: LintInput) -> Iterator[Problem]:
    for spec in given.tools:
        text = clean(spec.description)
        if text and not set(tokenise(text)) - set(tokenise(f"{spec.name} {spec.server}")):
            advice = "state its result, object and use"
            yield Problem(spec.id, f"{text!r} adds nothing to the name: {advice}")


@lint_rule("cut-description", "warning", "the description ends in the middle of a sentence")
def _cut_descriptions(given: LintInput) -> Iterator[Problem]:
    """Cut descriptions, and the longest ones if several end at the same length."""
    for spec in given.tools:
        text = clean(spec.description)
        if _TRAILS_OFF.search(text) and not _LISTS.search(text):
            yield Problem(spec.id, f"the description is cut: it ends in {text[-40:]!r}")
    texts = {spec.id: spec.description.strip() for spec in given.tools}
    longest = max(map(len, texts.values()), default=0)
    cut = [tool for tool, text in texts.items() if len(text) == longest]
    ends = {texts[tool] for tool in cut if _LAST_WORD.search(texts[tool])}
    if longest >= MIN_CUT_CHARS and len(ends) >= MIN_CUT_DESCRIPTIONS and len(ends) == len(cut):
        which = first_names(cut)
        text = f"{which} end at {longest} characters each, in the middle of a sentence"
        yield Problem(cut[0], text, tuple(cut[1:]))


@lint_rule("long-description", "info", "the description is longer than a model reads")
def _long_descriptions(given: LintInput) -> Iterator[Problem]:
    for spec in given.tools:
        if (words := len(clean(spec.description).split())) > MAX_DESCRIPTION_WORDS:
            text = (
                f"the description has {words:,} words, of which the model reads about "
                f"{MAX_DESCRIPTION_WORDS}: put what the tool does first, and details into "
                "its parameters"
            )
            yield Problem(spec.id, text)


@lint_rule("hidden-verb", "info", "the name does not state the tool's action")
def _names_without_verb(given: LintInput) -> Iterator[Problem]:
    for spec in given.tools:
        words = [word.lower() for word in split_identifier(spec.name)]
        if not words or not spec.name.isascii():
            continue
        if set(words) <= VAGUE_WORDS:
            text = f"the name {spec.name!r} fits any tool: name its action and object"
            yield Problem(spec.id, text, severity="warning")
            continue
        searches = given.searches.get(spec.id, ())
        is_found_well = searches and all(each.rank == 1 for each in searches)
        if not is_found_well and not any(map(_is_verb, words)):
            opening = _WORD.match(clean(spec.description))
            verb = _infinitive(opening.group().lower()) if opening else ""
            advice = f": begin it with {verb!r}, as the description does" if verb in VERBS else ""
            yield Problem(spec.id, f"the name {spec.name!r} holds no verb{advice}")


def _is_verb(word: str) -> bool:
    # `csv_to_json` converts, and `re` repeats; `orders` is a plural.
    return word in {"to", "2"} or word in VERBS or word.removeprefix("re") in VERBS


def _infinitive(word: str) -> str:
    """Verb without its ending: creates, fetches, retrieving, notifies."""
    forms = [word, word.removesuffix("s"), word.removesuffix("es")]
    if word.endswith("ies"):
        forms.append(word[:-3] + "y")
    if word.endswith(("ing", "ed")):
        stem = word.removesuffix("ing").removesuffix("ed")
        forms += [stem, stem + "e", stem[:-1]]
    return next((form for form in forms if form in VERBS), word)


@lint_rule("undescribed-parameters", "info", "half of the parameters have no description")
def _undescribed_parameters(given: LintInput) -> Iterator[Problem]:
    for spec in given.tools:
        descriptions = parameters_of(spec)
        bare = [name for name, text in descriptions.items() if not text]
        if bare and 2 * len(bare) >= len(descriptions):
            count = f"{len(bare)} of {len(descriptions)} parameters"
            yield Problem(spec.id, f"{count} have no description: {first_names(bare)}")


# -- several tools ---------------------------------------------------------------------------------


@lint_rule("same-text", "error", "several tools have the same description")
def _same_descriptions(given: LintInput) -> Iterator[Problem]:
    alike: dict[str, list[str]] = defaultdict(list)
    for tool, text in _description_keys(given).items():
        if text:
            alike[text].append(tool)
    for first, *others in alike.values():
        if others:
            also = first_names(others)
            text = f"it has the same description as {also}: state in each how it differs"
            yield Problem(first, text, tuple(others))


def _description_keys(given: LintInput) -> dict[str, str]:
    """Descriptions by id, in a form in which equal texts are equal."""
    return {spec.id: clean(spec.description).casefold() for spec in given.tools}


_OLD_STATE = r"(?:deprecated|obsolete|superseded|discontinued|no longer (?:supported|maintained))"
_IS_SUPERSEDED = re.compile(
    rf"(?i:\A\W*(?:(?:note|warning)\W+)?{_OLD_STATE}\b)|\bDEPRECATED\b|\.\. deprecated::"
    rf"|(?i:\[{_OLD_STATE})"
    rf"|(?i:\bthis (?:\w+ )?(?:tool|operation|action|endpoint|api|method|function|command)\W+"
    rf"(?:is|was|has been)\W+(?:now )?{_OLD_STATE})"
)
"""Statement that the tool itself is deprecated; other tools list deprecated packages."""

_OLD_WORDS = frozenset({"old", "legacy", "deprecated", "obsolete"})
_VERSION = re.compile(r"v?\d{1,2}\Z")


@lint_rule("deprecated", "info", "the tool is superseded and still served")
def _superseded_tools(given: LintInput) -> Iterator[Problem]:
    specs = given.tools
    by_name = {(spec.server, spec.name.casefold()): spec for spec in specs}
    by_stem: dict[tuple[str, tuple[str, ...]], list[ToolSpec]] = defaultdict(list)
    for spec in specs:
        by_stem[spec.server, _stem(spec)].append(spec)
    for spec in specs:
        opening = clean(spec.description)[:MAX_PURPOSE_CHARS]
        words = name_words(spec.name)
        is_stated = _IS_SUPERSEDED.search(opening)
        if not is_stated and not words & _OLD_WORDS:
            continue
        named = [
            by_name[spec.server, word]
            for word in (found.rstrip(".-") for found in re.findall(r"[\w.-]+", opening.casefold()))
            if (spec.server, word) in by_name
        ]
        twins = [each for each in (*named, *by_stem[spec.server, _stem(spec)]) if each is not spec]
        if twins:
            text = f"it is superseded, and {twins[0].name!r} is served as well: remove it"
            yield Problem(spec.id, text, (twins[0].id,), "warning")
        elif is_stated:
            text = "it is marked as deprecated: remove it when no agent needs it"
            yield Problem(spec.id, text)


def _stem(spec: ToolSpec) -> tuple[str, ...]:
    """Words of a name without those that mark an old or new version."""
    words = (word.lower() for word in split_identifier(spec.name))
    return tuple(w for w in words if w not in _OLD_WORDS and not _VERSION.match(w) and w != "new")


MIN_KNOWN_LANGUAGES = 4
"""Minimum number of texts in a known language; two thirds of them must share one."""


@lint_rule("other-language", "warning", "the text is in another language than the rest")
def _other_languages(given: LintInput) -> Iterator[Problem]:
    language_by_tool = {spec.id: _language(clean(spec.description)) for spec in given.tools}
    known = Counter(language for language in language_by_tool.values() if language)
    main, count = next(iter(known.most_common(1)), ("", 0))
    # If the main language is known by its script, texts of unknown language are not in it.
    total = len(language_by_tool) if main in _SCRIPTS else known.total()
    if known.total() < MIN_KNOWN_LANGUAGES or 3 * count < 2 * total:
        return
    for tool, language in language_by_tool.items():
        if language not in {None, main}:
            text = (
                f"the description is in another language ({language}) than the rest ({main}): "
                "requests in one do not find texts in the other"
            )
            yield Problem(tool, text)


_SCRIPTS = {
    "zh": re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]"),
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "ko": re.compile(r"[\uac00-\ud7af]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "ar": re.compile(r"[\u0600-\u06ff]"),
    "th": re.compile(r"[\u0e00-\u0e7f]"),
    "he": re.compile(r"[\u0590-\u05ff]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "hi": re.compile(r"[\u0900-\u097f]"),
}
MIN_SCRIPT_LETTERS = 4
MIN_PROSE_CHARS = 60
"""Shorter texts in Latin letters are often assigned to a wrong language."""


def _language(text: str) -> str | None:
    """Language by script, otherwise by the extra `context`."""
    signs = {name: len(script.findall(text)) for name, script in _SCRIPTS.items()}
    name, count = max(signs.items(), key=lambda pair: pair[1])
    if count >= MIN_SCRIPT_LETTERS and 3 * count > len(_ENGLISH.findall(text)):
        return "ja" if signs["ja"] and name == "zh" else name
    if len(text) < MIN_PROSE_CHARS:
        return None
    return language_of(text)


_SEVERITY: dict[Severity, LintSeverity] = {"info": "info", "warning": "warning", "block": "error"}


@lint_rule("audit", "warning", "the text hides something or instructs a model (`toolcrib audit`)")
def _audit(given: LintInput) -> Iterator[Problem]:
    for found in audit_all(given.tools):
        text = f"{found.place}: {found.why}" if found.place else found.why
        yield Problem(found.tool, text, (), _SEVERITY[found.severity], found.rule)


# -- providers -------------------------------------------------------------------------------------


def _refusals(provider: Provider, given: LintInput) -> Iterator[Problem]:
    if provider not in given.providers:
        return
    for spec in given.tools:
        schema = spec.input_schema or {"type": "object"}
        for fault in refusals(provider, Definition(spec.name, spec.description, schema)):
            yield Problem(spec.id, f"{provider} refuses a whole request for it: {fault}")


for _provider in Provider:
    _title = f"{_provider} refuses the definition (`--for`)"
    lint_rule(f"provider-{_provider}", "error", _title)(partial(_refusals, _provider))


# -- searches --------------------------------------------------------------------------------------

Progress: TypeAlias = Callable[[str, int, int], None]
"""Callback with the current step, the finished amount, and the total."""

SEARCH_DEPTH = 10
"""Tools that each search returns."""

MAX_SEARCHED_EXAMPLES = 3
"""Example requests of a tool that are searched, the first ones."""

MAX_PARAMETERS_CHARS = 250


def search_each(
    tools: Sequence[ToolSpec],
    settings: Settings,
    progress: Progress = lambda _what, _done, _total: None,
    *,
    dense: DenseEncoder | None = None,
) -> dict[str, list[SelfSearch]]:
    """Search for every tool by its own texts; results by id, the purpose first.

    `dense` defaults to the encoder of the settings.
    """
    settings = settings.without_reranker()
    bare = [tool.model_copy(update={"success_examples": ()}) for tool in tools]
    found: dict[str, list[SelfSearch]] = {}
    with Crib.open(build.MEMORY, settings=settings, dense=dense) as crib:
        crib.index_tools(bare, progress=lambda p: progress("indexing the tools", p.done, p.total))
        for done, tool in enumerate(tools, start=1):
            found[tool.id] = [_search(crib, tool, kind, text) for kind, text in _texts(tool)]
            progress("searching for each tool", done, len(tools))
    return found


def _texts(tool: ToolSpec) -> Iterator[tuple[SearchKind, str]]:
    yield "purpose", purpose_of(tool)
    for example in tool.success_examples[:MAX_SEARCHED_EXAMPLES]:
        if has_words(example):
            yield "example", example
    parameters = "; ".join(
        ": ".join(filter(None, (" ".join(split_identifier(name)), about)))
        for name, about in parameters_of(tool).items()
    )
    if has_words(parameters):
        yield "parameters", parameters[:MAX_PARAMETERS_CHARS]


def _search(crib: Crib, tool: ToolSpec, kind: SearchKind, text: str) -> SelfSearch:
    hits = crib.find_tools(text, k=SEARCH_DEPTH, gate=False).tools
    others = [hit for hit in hits if hit.id != tool.id]
    own = next((hit for hit in hits if hit.id == tool.id), None)
    best = others[0].score if others else 0.0
    # A tool outside of the results scores at most as the last result.
    score = own.score if own is not None else hits[-1].score if hits else 0.0
    rank = None if own is None else own.rank
    return SelfSearch(kind, text, rank, others[0].id if others else "", score - best)


# -- what the answers show -------------------------------------------------------------------------

MIN_LEAD = 0.02
"""Minimum score lead of a clear result: below it, a rephrased request may rank the other tool
first."""


@lint_rule("not-found", "error", "none of its own texts finds the tool among the first five")
def _not_found(given: LintInput) -> Iterator[Problem]:
    texts = _description_keys(given)
    for tool, searches in given.searches.items():
        purpose = searches[0]
        is_found = any(each.is_near for each in searches)
        # `same-text` reports equal texts, here and below.
        if not is_found and texts[tool] != texts.get(purpose.other):
            text = f"even {purpose.text!r} does not find it: {purpose.other} and others come first"
            yield Problem(tool, text, (purpose.other,))


@lint_rule(
    "hard-to-find",
    "warning",
    "one of its example requests does not find the tool among the first five",
)
def _hard_to_find(given: LintInput) -> Iterator[Problem]:
    for tool, searches in given.searches.items():
        is_found = any(each.is_near for each in searches)
        for each in searches:
            if is_found and each.kind == "example" and not each.is_near:
                text = (
                    f"without its examples {each.text!r} finds {each.other}: name in the "
                    "description the subject of such requests"
                )
                yield Problem(tool, text, (each.other,))


@lint_rule(
    "confusable", "warning", "its own purpose finds another tool first, or with an equal score"
)
def _confusable(given: LintInput) -> Iterator[Problem]:
    specs = {tool.id: tool for tool in given.tools}
    texts = _description_keys(given)
    paired = set[frozenset[str]]()
    for tool, (purpose, *rest) in given.searches.items():
        pair = frozenset((tool, purpose.other))
        is_found = any(each.is_near for each in (purpose, *rest))
        is_confused = is_found and purpose.other and purpose.lead < MIN_LEAD
        if not is_confused or pair in paired:
            continue
        if texts[tool] != texts[purpose.other]:
            paired.add(pair)
            text = _difference(specs[tool], specs[purpose.other], purpose.lead)
            yield Problem(tool, text, (purpose.other,))


def _difference(tool: ToolSpec, other: ToolSpec, lead: float) -> str:
    how = "scores about the same" if lead > 0 else "comes first"
    parts = [
        f"only {each.id} has {', '.join(words)}"
        for each, words in ((tool, own_words(tool, other)), (other, own_words(other, tool)))
        if words
    ]
    advice = f"they differ in words: {'; '.join(parts)}" if parts else "no word differs"
    return f"in a search by its own purpose, {other.id} {how}; {advice}"


# -- the report ------------------------------------------------------------------------------------

WORST_FIRST = LINT_SEVERITIES[::-1]


@dataclass(frozen=True, slots=True)
class ServerLint:
    """Number of a server's tools, and its findings by severity."""

    server: str
    tools: int
    findings: Mapping[LintSeverity, int]


@dataclass(frozen=True, slots=True)
class LintReport:
    """Findings of a lint, and servers, the worst first."""

    tools: int
    servers: tuple[ServerLint, ...]
    findings: tuple[LintFinding, ...]


def lint(
    tools: Iterable[ToolSpec],
    settings: Settings | None = None,
    *,
    ignored: Iterable[str] = (),
    searches: Mapping[str, Sequence[SelfSearch]] | None = None,
    providers: Collection[str] = (),
    progress: Progress = lambda _what, _done, _total: None,
) -> LintReport:
    """Find what keeps tools from being found; disabled tools are ignored.

    Rules of `providers` report definitions that a provider rejects. Findings of `ignored` rules are
    dropped; `audit` stands for all `audit/...`. `searches`: results of `search_each`, to reuse
    them.

    Raises:
        MissingExtraError: rules of a provider need the extra `gateway`.
        QueryError: an ignored rule is unknown.
        ToolcribError: the models of the settings cannot be used.
    """
    ignored = set(ignored)
    if unknown := {name.partition("/")[0] for name in ignored} - LINT_RULES.keys():
        raise QueryError(f"no rule is called {min(unknown)!r}; known are {', '.join(LINT_RULES)}")
    if providers:
        require_extra("jsonschema", "lint by the rules of a provider", "gateway")
    # The first tool of an id stays, as in an index.
    known = list({tool.id: tool for tool in reversed(list(tools)) if tool.enabled}.values())[::-1]
    searches = searches or search_each(known, settings or Settings(), progress)
    progress("applying the rules", 0, 0)
    findings = list(apply_rules(LintInput(known, searches, providers), ignored))
    findings.sort(key=lambda each: (-LINT_SEVERITIES.index(each.severity), each.rule, each.tool))
    return LintReport(len(known), tuple(_servers(known, findings)), tuple(findings))


def _servers(tools: Sequence[ToolSpec], findings: Sequence[LintFinding]) -> list[ServerLint]:
    server_of = {tool.id: tool.server for tool in tools}
    counted = Counter((server_of[each.tool], each.severity) for each in findings)
    found = [
        ServerLint(server, count, {name: counted[server, name] for name in WORST_FIRST})
        for server, count in Counter(server_of.values()).items()
    ]
    return sorted(
        found, key=lambda each: (*(-each.findings[name] for name in WORST_FIRST), each.server)
    )


def fails(findings: Iterable[LintFinding], least: LintSeverity) -> bool:
    """True if any finding has the severity `least`, or a higher one."""
    bad = LINT_SEVERITIES[LINT_SEVERITIES.index(least) :]
    return any(finding.severity in bad for finding in findings)
