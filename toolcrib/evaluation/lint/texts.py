"""Rules about the texts of tools: what each one says, and what several say alike."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from toolcrib.encoders.language import language_of
from toolcrib.evaluation.lint.findings import LintInput, LintSeverity, Problem, lint_rule
from toolcrib.indexers.audit import Severity, audit_all
from toolcrib.indexers.points import clean
from toolcrib.integrations.providers import Definition, Provider, refusals
from toolcrib.records import ToolSpec
from toolcrib.records.codec import object_of
from toolcrib.retrieval.legs import has_words
from toolcrib.text import name_words, split_identifier, tokenise

# -- the parts of a text ---------------------------------------------------------------------------

MAX_PURPOSE_CHARS = 300
_END = re.compile(r"[.!?](?=\s|$)|[。！？]")
MIN_SENTENCE_CHARS, MIN_WIDE_SENTENCE_CHARS = 12, 4
"""Shorter than this, in letters or in Chinese characters, no sentence says what a tool is for."""


def purpose_of(spec: ToolSpec) -> str:
    """Purpose of a tool: the first sentence of its description, else its name."""
    text = clean(spec.description)
    ends = (
        end.end()
        for end in _END.finditer(text)
        if end.start() >= (MIN_SENTENCE_CHARS if end.group().isascii() else MIN_WIDE_SENTENCE_CHARS)
    )
    said = text[: min(next(ends, MAX_PURPOSE_CHARS), MAX_PURPOSE_CHARS)]
    return said if has_words(said) else " ".join(split_identifier(spec.name)) or spec.name


_ARGUMENTS = re.compile(
    r"\b(?:args|arguments|parameters|params|inputs?)\b\W{0,8}:|(?<!\S):param\b", re.IGNORECASE
)
_ARGUMENT = re.compile(
    r"(?<!\S)[-*`:]{0,3}(?:param )?([\w.-]{1,80}+)`?(?: ?\([^()]{0,80}\))?:\s([^\n]+)"
)


def parameters_of(spec: ToolSpec) -> Mapping[str, str]:
    """The parameters of a tool, each with its description in the schema or in a section `Args:`."""
    known = object_of(spec.input_schema.get("properties"))
    found = {name: object_of(schema).get("description") for name, schema in known.items()}
    section = _ARGUMENTS.search(spec.description)
    start = section.end() if section else len(spec.description)
    listed = {each[1]: each[2] for each in _ARGUMENT.finditer(spec.description, start)}
    return {
        name: clean(text) if isinstance(text, str) and text else clean(listed.get(name, ""))
        for name, text in found.items()
    }


_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def own_words(spec: ToolSpec, other: ToolSpec, most: int = 5) -> tuple[str, ...]:
    """Words of the name and description of which the other tool has none, in their order."""
    # Of a whole text, stop words are gone.
    apart = set(tokenise(_text(spec))) - set(tokenise(_text(other)))
    found: dict[str, str] = {}
    for word in _WORD.findall(_text(spec)):
        terms = tokenise(word)
        if set(terms) <= apart:
            found.setdefault(terms[0], word.lower())
    return tuple(found.values())[:most]


def _text(spec: ToolSpec) -> str:
    return f"{' '.join(split_identifier(spec.name))} {clean(spec.description)}"


# -- one tool --------------------------------------------------------------------------------------

MAX_DESCRIPTION_WORDS = 200
"""About as much as the bundled encoder reads: 256 tokens."""

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
VAGUE = frozenset(_VAGUE.split())
"""Words that say that something is done, and not what."""

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
            text = (
                "it has no description: say in a sentence what it does, to what, and when to use it"
            )
            yield Problem(spec.id, text)


@lint_rule("thin-description", "info", "the description says little that the name does not say")
def _thin_descriptions(given: LintInput) -> Iterator[Problem]:
    for spec in given.tools:
        text = clean(spec.description)
        if text and not set(tokenise(text)) - set(tokenise(f"{spec.name} {spec.server}")):
            advice = "say what it gives, of what, and when to use it"
            yield Problem(spec.id, f"{text!r} adds nothing to the name: {advice}")


@lint_rule(
    "cut-description",
    "warning",
    "the description ends in the middle of a sentence",
    shared=True,
)
def _cut_descriptions(given: LintInput) -> Iterator[Problem]:
    """Descriptions that trail off, and the longest where several end at the same length."""
    for spec in given.tools:
        text = clean(spec.description)
        if _TRAILS_OFF.search(text) and not _LISTS.search(text):
            yield Problem(spec.id, f"the description is cut: it ends in {text[-40:]!r}")
    texts = {spec.id: spec.description.strip() for spec in given.tools}
    longest = max(map(len, texts.values()), default=0)
    cut = [tool for tool, text in texts.items() if len(text) == longest]
    ends = {texts[tool] for tool in cut if _LAST_WORD.search(texts[tool])}
    if longest >= MIN_CUT_CHARS and len(ends) >= MIN_CUT_DESCRIPTIONS and len(ends) == len(cut):
        text = f"{len(cut)} descriptions end at {longest} characters, in the middle of a sentence"
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


@lint_rule("hidden-verb", "info", "the name does not say what the tool does")
def _names_without_verb(given: LintInput) -> Iterator[Problem]:
    for spec in given.tools:
        words = [word.lower() for word in split_identifier(spec.name)]
        if not words or not spec.name.isascii():
            continue
        if set(words) <= VAGUE:
            text = f"the name {spec.name!r} fits any tool: name what it does, and to what"
            yield Problem(spec.id, text, severity="warning")
        elif not any(map(_is_verb, words)) and not _is_found_well(given, spec.id):
            opening = _WORD.match(clean(spec.description))
            verb = _infinitive(opening.group().lower()) if opening else ""
            advice = f": begin it with {verb!r}, as the description does" if verb in VERBS else ""
            yield Problem(spec.id, f"the name {spec.name!r} holds no verb{advice}")


def _is_found_well(given: LintInput, tool: str) -> bool:
    """True if every search by the tool's own texts brings it first."""
    searches = given.searches.get(tool, ())
    return bool(searches) and all(each.rank == 1 for each in searches)


def _is_verb(word: str) -> bool:
    # `csv_to_json` converts, what is done again is done; `orders` are many and order nothing.
    return word in {"to", "2"} or word in VERBS or word.removeprefix("re") in VERBS


def _infinitive(word: str) -> str:
    """A verb without its ending: creates, fetches, retrieving, notifies."""
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
            yield Problem(spec.id, f"{count} have no description: {_first_names(bare)}")


def _first_names(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# -- several tools ---------------------------------------------------------------------------------


@lint_rule("same-text", "error", "several tools have the same description", shared=True)
def _same_descriptions(given: LintInput) -> Iterator[Problem]:
    alike: dict[str, list[str]] = defaultdict(list)
    for spec in given.tools:
        if text := clean(spec.description).casefold():
            alike[text].append(spec.id)
    for first, *others in alike.values():
        if others:
            count = len(others) + 1
            text = f"{count} tools have this description: say in each what the others do not"
            yield Problem(first, text, tuple(others))


_GONE = r"(?:deprecated|obsolete|superseded|discontinued|no longer (?:supported|maintained))"
_IS_SUPERSEDED = re.compile(
    rf"(?i:\A\W*(?:(?:note|warning)\W+)?{_GONE}\b)|\bDEPRECATED\b|\.\. deprecated::|(?i:\[{_GONE})"
    rf"|(?i:\bthis (?:\w+ )?(?:tool|operation|action|endpoint|api|method|function|command)\W+"
    rf"(?:is|was|has been)\W+(?:now )?{_GONE})"
)
"""Statement that the tool itself is deprecated; other tools list deprecated packages."""

_OLD = frozenset({"old", "legacy", "deprecated", "obsolete"})
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
        if not is_stated and not words & _OLD:
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
            text = "it says that it is deprecated: remove it, or say which tool to use instead"
            yield Problem(spec.id, text)


def _stem(spec: ToolSpec) -> tuple[str, ...]:
    """The words of a name without those that tell an old version from a new one."""
    words = (word.lower() for word in split_identifier(spec.name))
    return tuple(w for w in words if w not in _OLD and not _VERSION.match(w) and w != "new")


MIN_FAMILY_TOOLS = 6


@lint_rule(
    "family",
    "info",
    "tools differ in one word and take the same parameters: they could be one",
    shared=True,
)
def _families(given: LintInput) -> Iterator[Problem]:
    """Tools of a server that do the same and take the same parameters."""
    families: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for spec in given.tools:
        words = (word.lower() for word in split_identifier(spec.name))
        verb = next((word for word in words if word in VERBS), None)
        if verb is not None and (taken := tuple(sorted(parameters_of(spec)))):
            families[spec.server, verb, taken].append(spec.id)
    for (_, verb, taken), (first, *others) in families.items():
        if len(others) + 1 >= MIN_FAMILY_TOOLS:
            text = (
                f"{len(others) + 1} tools that {verb} take the same parameters "
                f"({_first_names(taken)}): one tool with a parameter that says what "
                "would be easier to find"
            )
            yield Problem(first, text, tuple(others))


MIN_KNOWN_LANGUAGES = 4
"""Texts in a known language; two thirds of them must share one."""


@lint_rule("other-language", "warning", "the text is in another language than the rest")
def _other_languages(given: LintInput) -> Iterator[Problem]:
    language_by_tool = {spec.id: _language(clean(spec.description)) for spec in given.tools}
    known = Counter(language for language in language_by_tool.values() if language)
    main, count = next(iter(known.most_common(1)), ("", 0))
    if known.total() < MIN_KNOWN_LANGUAGES or 3 * count < 2 * known.total():
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
"""Shorter texts in Latin letters are taken for one language as often as for another."""


def _language(text: str) -> str | None:
    """The language by its script, else as the extra `context` tells it."""
    signs = {name: len(script.findall(text)) for name, script in _SCRIPTS.items()}
    name, count = max(signs.items(), key=lambda pair: pair[1])
    if count >= MIN_SCRIPT_LETTERS and 3 * count > len(_ENGLISH.findall(text)):
        return "ja" if signs["ja"] and name == "zh" else name
    if len(text) < MIN_PROSE_CHARS:
        return None
    return language_of(text)


_SEVERITY: dict[Severity, LintSeverity] = {"info": "info", "warning": "warning", "block": "error"}


@lint_rule(
    "audit", "warning", "the text hides something or orders a model about (`toolcrib audit`)"
)
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
            text = f"{provider} refuses a whole request for it: {fault}"
            yield Problem(spec.id, text)


for _provider in Provider:
    lint_rule(f"provider-{_provider}", "error", f"{_provider} refuses the definition (`--for`)")(
        partial(_refusals, _provider)
    )
