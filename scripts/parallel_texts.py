"""Collect strings of applications with their translations: texts to learn other languages from.

    pip download --no-deps --only-binary :all: homeassistant wagtail ovos-skill-weather ...
    npm pack cldr-annotations-full matrix-react-sdk ...
    pip install polib
    python scripts/parallel_texts.py FOLDER --out FILE.jsonl

Reads every wheel and npm package of a folder: JSON files named by their language (or in a folder
of that name), gettext catalogues, and lines of voice assistants. A line of the output has `en`,
`text` and `lang`. `scripts/fit_lexicon.py` and `scripts/distil_multilingual.py` read it.
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolcrib.encoders.language import ENCODED_LANGUAGES

Pair = tuple[str, str]
"""A text in English and in the other language."""

MAX_CHARS = 300
_LANGUAGE = (
    r"(?P<language>[a-z]{2})(?:[-_](?P<region>Hans|US|GB|CN|BR|[a-z]{2}|(?P<same>[A-Z]{2})))?"
)
_JSON = re.compile(rf"(?P<before>.*/){_LANGUAGE}(?:-[0-9a-f]{{32}})?(?P<after>(?:/[^/]+)?)\.json$")
_CATALOGUE = re.compile(rf".*/{_LANGUAGE}/LC_MESSAGES/[^/]+\.(?P<form>po|json)$")
_LINES = re.compile(rf"(?P<before>.*/locale/){_LANGUAGE}(?P<after>/.*\.(?:dialog|intent|voc))$")
_MARKUP = re.compile(r"<[^>]+>|\[%key:[^\]]*%\]|\*\*|`|https?://\S+|&&?(?=\w)")
_OPTIONAL, _CHOICE = re.compile(r"\[([^\[\]()]*)\]"), re.compile(r"\(([^\[\]()]*)\)")


def files(package: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a wheel or an npm package."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
    else:
        with tarfile.open(package) as archive:
            for member in archive:
                if member.isfile() and (file := archive.extractfile(member)):
                    yield member.name, file.read()


def strings(content: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Strings of nested JSON by their keys."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from strings(value, f"{path}.{key}")
    elif isinstance(content, list) and content:
        yield from strings(content[0], path)
    elif isinstance(content, str):
        yield path, content


def messages(content: Mapping[str, Any]) -> Iterator[Pair]:
    """Messages of a catalogue as JSON: a context may stand before the English text."""
    for name, value in content.items():
        if isinstance(value, dict):
            yield from messages(value)
        elif isinstance(value, list) and value and isinstance(value[0], str):
            yield name.rpartition("\x04")[2], value[0]


def from_catalogue(content: bytes, form: str) -> Iterator[Pair]:
    """Messages of gettext, whose names are the English texts."""
    if form == "json":
        yield from messages(json.loads(content))
        return
    import polib

    try:
        entries = polib.pofile(content.decode("utf-8", "replace")).translated_entries()
    except OSError as error:
        print(f"left out, {error}")
        return
    yield from ((message.msgid, message.msgstr) for message in entries)


def from_voice_lines(english: str, other: str) -> Iterator[Pair]:
    """Lines of a file that has as many in both languages."""
    lines = [
        [plain(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]
        for text in (english, other)
    ]
    if len(lines[0]) == len(lines[1]):
        yield from zip(*lines, strict=True)


def plain(template: str) -> str:
    """A template's words, the first of each choice."""
    while template != (
        cut := _CHOICE.sub(lambda m: m[1].split("|")[0], _OPTIONAL.sub(" ", template))
    ):
        template = cut
    return re.sub(r"\{\{?\s*(\w+)\s*\}?\}", r"\1", template)


def pairs(package: Path) -> Iterator[tuple[str, Pair]]:
    """Languages and pairs of one package."""
    grouped: dict[tuple[str, str, str], dict[str, bytes]] = defaultdict(dict)
    for name, content in files(package):
        if found := _CATALOGUE.match(name):
            language = language_of(found)
            yield from ((language, pair) for pair in from_catalogue(content, found["form"]))
        elif (found := _JSON.match(name)) or (found := _LINES.match(name)):
            place = (name.rpartition(".")[2], found["before"], found["after"])
            grouped[place].setdefault(language_of(found), content)
    for (form, *_), contents in grouped.items():
        english = contents.pop("en", b"").decode("utf-8", "replace")
        read = from_json if form == "json" else from_voice_lines
        for language, content in contents.items() if english else ():
            other = content.decode("utf-8", "replace")
            yield from ((language, pair) for pair in read(english, other))


def from_json(english: str, other: str) -> Iterator[Pair]:
    try:
        known = dict(strings(json.loads(english)))
        yield from ((known[k], v) for k, v in strings(json.loads(other)) if k in known)
    except json.JSONDecodeError:
        return


def language_of(found: re.Match[str]) -> str:
    """The language; another region than the usual is another language."""
    return found["language"] if found["region"] not in {"TW", "HK"} else "-"


def clean(pair: Pair) -> Pair:
    en, text = (re.sub(r"\s+", " ", _MARKUP.sub(" ", each)).strip() for each in pair)
    return en, text


def is_useful(pair: Pair) -> bool:
    en, text = pair
    return (
        en != text
        and not en[:1].isdigit()  # days in history, which are full of names
        and max(len(en), len(text)) <= MAX_CHARS
        and bool(re.search(r"[^\W\d_]", text) and re.search("[a-zA-Z]{2}", en))
    )


def main() -> None:
    """Collect; see the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found = {
        (language, *cleaned)
        for package in sorted((*options.folder.rglob("*.whl"), *options.folder.rglob("*.tgz")))
        for language, pair in pairs(package)
        if language in ENCODED_LANGUAGES and language != "en" and is_useful(cleaned := clean(pair))
    }
    with options.out.open("w", encoding="utf-8") as file:
        for language, en, text in sorted(found):
            line = {"lang": language, "en": en, "text": text}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(dict(Counter(language for language, *_ in found)))


if __name__ == "__main__":
    main()
