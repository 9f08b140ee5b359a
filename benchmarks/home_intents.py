"""A home's orders in twelve languages, over intents that ten English examples each make known.

    pip install hassil home-assistant-intents
    python benchmarks/home_intents.py --out benchmarks/results/home_intents.json

The sentences are drawn from the templates of Home Assistant's community
(https://github.com/home-assistant/intents), which nothing here has learned from; the words that
fill them stand below. English is measured on ten other sentences of each intent. hit@1, percent.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Any

from languages import with_encoder

from toolcrib import Crib, ToolSpec

EXAMPLES = SENTENCES = 10
MAX_FAILURES, MAX_DEPTH = 200, 40

SLOTS = ("area", "floor", "name", "item", "message", "search", "zone", "timer_name", "command")
LINES = """
en: kitchen, bedroom, living room | first floor, ground floor | ceiling lamp, robot, Anna |
    milk, apples, bread | dinner is ready | the Beatles | work, school | pizza, eggs |
    open the garage, turn off the lights
de: Küche, Schlafzimmer, Wohnzimmer | Erdgeschoss, ersten Stock | Deckenlampe, Roboter, Anna |
    Milch, Äpfel, Brot | das Essen ist fertig | die Beatles | Arbeit, Schule | Pizza, Eier |
    öffne die Garage, schalte das Licht aus
es: cocina, dormitorio, salón | planta baja, primer piso | lámpara del techo, robot, Ana |
    leche, manzanas, pan | la cena está lista | los Beatles | trabajo, escuela | pizza, huevos |
    abre el garaje, apaga las luces
fr: cuisine, chambre, salon | rez-de-chaussée, premier étage | plafonnier, robot, Anne |
    lait, pommes, pain | le dîner est prêt | les Beatles | travail, école | pizza, œufs |
    ouvre le garage, éteins les lumières
it: cucina, camera da letto, soggiorno | piano terra, primo piano | lampadario, robot, Anna |
    latte, mele, pane | la cena è pronta | i Beatles | lavoro, scuola | pizza, uova |
    apri il garage, spegni le luci
ja: キッチン, 寝室, リビング | 一階, 二階 | シーリングライト, ロボット, アンナ |
    牛乳, りんご, パン | 夕食ができました | ビートルズ | 職場, 学校 | ピザ, 卵 |
    ガレージを開けて, 電気を消して
ko: 주방, 침실, 거실 | 1층, 2층 | 천장등, 로봇, 안나 | 우유, 사과, 빵 | 저녁 준비됐어요 | 비틀즈 |
    회사, 학교 | 피자, 계란 | 차고 열어, 불 꺼
nl: keuken, slaapkamer, woonkamer | begane grond, eerste verdieping | plafondlamp, robot, Anna |
    melk, appels, brood | het eten is klaar | de Beatles | werk, school | pizza, eieren |
    open de garage, doe de lampen uit
pl: kuchnia, sypialnia, salon | parter, pierwsze piętro | lampa sufitowa, robot, Anna |
    mleko, jabłka, chleb | kolacja jest gotowa | Beatlesów | praca, szkoła | pizza, jajka |
    otwórz garaż, wyłącz światła
pt: cozinha, quarto, sala | rés-do-chão, primeiro andar | candeeiro, robô, Ana |
    leite, maçãs, pão | o jantar está pronto | os Beatles | trabalho, escola | pizza, ovos |
    abre a garagem, desliga as luzes
ru: кухня, спальня, гостиная | первый этаж, второй этаж | люстра, робот, Анна |
    молоко, яблоки, хлеб | ужин готов | Битлз | работа, школа | пицца, яйца |
    открой гараж, выключи свет
zh-CN: 厨房, 卧室, 客厅 | 一楼, 二楼 | 吸顶灯, 机器人, 安娜 | 牛奶, 苹果, 面包 | 晚饭好了 | 周杰伦 |
    公司, 学校 | 披萨, 鸡蛋 | 打开车库, 关灯
"""
"""Words of each language for what a sentence leaves open, in the order of `SLOTS`."""

Words = Mapping[str, Sequence[str]]


class UnfilledError(Exception):
    """A template leaves open what has no words here."""


def slot_words() -> dict[str, Words]:
    """Words by language and slot."""
    found: dict[str, Words] = {}
    for block in re.split(r"\n(?=\S+: )", LINES.strip()):
        language, _, rest = block.partition(": ")
        parts = [[word.strip() for word in part.split(",")] for part in rest.split("|")]
        found[language] = dict(zip(SLOTS, parts, strict=True))
    return found


class Sampler:
    """Draws sentences of one language's templates."""

    def __init__(self, language: str, words: Words) -> None:
        from hassil.intents import Intents

        place = files("home_assistant_intents") / "data" / f"{language}.json"
        self._intents = Intents.from_dict(json.loads(place.read_text(encoding="utf-8")))
        self._words, self._random = words, random.Random(0)

    def sentences(self, count: int) -> dict[str, list[str]]:
        """Sentences by intent, up to `count` different ones each."""
        return {
            name: self._of_intent(intent, count) for name, intent in self._intents.intents.items()
        }

    def _of_intent(self, intent: Any, count: int) -> list[str]:
        found: dict[str, None] = {}
        for _ in range(MAX_FAILURES):
            data = self._random.choice(intent.data)
            rules = {**self._intents.expansion_rules, **(data.expansion_rules or {})}
            try:
                text = self._spell(self._random.choice(data.sentences), rules)
            except UnfilledError:
                continue
            found[re.sub(r"\s+", " ", text).strip()] = None
            if len(found) == count:
                break
        return [text for text in found if text]

    def _spell(self, part: Any, rules: Mapping[str, Any], depth: int = 0) -> str:
        from hassil import expression as forms

        if depth > MAX_DEPTH:
            raise UnfilledError
        if isinstance(part, forms.TextChunk):
            return str(part.text)
        if isinstance(part, forms.ListReference):
            return self._slot(part.list_name, rules, depth)
        between = " " if isinstance(part, forms.Permutation) else ""
        return between.join(
            self._spell(each, rules, depth + 1) for each in self._parts(part, rules)
        )

    def _parts(self, part: Any, rules: Mapping[str, Any]) -> Sequence[Any]:
        from hassil import expression as forms

        match part:
            case forms.RuleReference(rule_name=name):
                if name not in rules:
                    raise UnfilledError(name)
                return [rules[name]]
            case forms.Sentence():
                return [part.expression]
            case forms.Alternative():
                return [self._random.choice(part.items)]
            case forms.Permutation():
                return self._random.sample(part.items, len(part.items))
            case _:
                return part.items

    def _slot(self, name: str, rules: Mapping[str, Any], depth: int) -> str:
        from hassil.intents import RangeSlotList, TextSlotList

        if slots := [slot for slot in self._words if slot in name]:
            return self._random.choice(self._words[max(slots, key=len)])
        match self._intents.slot_lists.get(name):
            case RangeSlotList() as numbers:
                return str(self._random.randint(numbers.start, numbers.stop))
            case TextSlotList() as texts:
                return self._spell(self._random.choice(texts.values).text_in, rules, depth + 1)
            case _:
                raise UnfilledError(name)


def spoken(intent: str) -> str:
    """The words of an intent's name: `HassTurnOn` is "turn on"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", intent.removeprefix("Hass")).lower()


def figures(encoder: str, sentences: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, float]:
    """Share of sentences whose first intent is right, by language."""
    with Crib.open(":memory:", settings=with_encoder(encoder)) as crib:
        crib.index_tools(
            [
                ToolSpec(name=name, description=spoken(name), success_examples=texts[:EXAMPLES])
                for name, texts in sentences["en"].items()
            ]
        )
        return {
            language: 100
            * mean(
                crib.find_tools(text, k=1).tools[0].name == name
                for name, texts in by_intent.items()
                for text in texts[EXAMPLES if language == "en" else 0 :]
            )
            for language, by_intent in sentences.items()
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoders", nargs="+", default=("bundled", "multilingual"))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    sentences = {
        language: Sampler(language, words).sentences(
            EXAMPLES + SENTENCES if language == "en" else SENTENCES
        )
        for language, words in slot_words().items()
    }
    results: dict[str, dict[str, float]] = {}
    for encoder in chosen.encoders:
        found = figures(encoder, sentences)
        found["mean of the others"] = mean(found[each] for each in found if each != "en")
        results[encoder] = {name: round(value, 1) for name, value in found.items()}
        print(encoder, json.dumps(results[encoder]))
    if chosen.out:
        chosen.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
