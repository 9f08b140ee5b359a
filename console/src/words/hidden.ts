/** Characters that a person does not see and a model reads. */

export interface Hidden {
  /** `U+200B`, or a whole run of tag letters as what it spells. */
  label: string;
  title: string;
}

const NAMES: Readonly<Record<number, string>> = {
  0x00ad: "soft hyphen",
  0x034f: "combining grapheme joiner",
  0x061c: "Arabic letter mark",
  0x115f: "Hangul filler",
  0x1160: "Hangul filler",
  0x180e: "Mongolian vowel separator",
  0x200b: "zero width space",
  0x200c: "zero width non-joiner",
  0x200d: "zero width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x2028: "line separator",
  0x2029: "paragraph separator",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "end of direction",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2060: "word joiner",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "end of isolate",
  0x2800: "blank Braille pattern",
  0x3164: "Hangul filler",
  0xfeff: "byte order mark",
  0xffa0: "Hangul filler",
};

// Runs of tag letters; else one character, and as often as it is repeated: controls but tab and
// line ends, formats, what is private or half a character, fillers, and selectors of variants.
const INVISIBLE =
  /[\u{e0000}-\u{e007f}]+|((?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}])\1*/gu;

// Where such characters belong: in pictures, in scripts that join letters, and between the
// letters of a word that may be broken there.
const PICTURE = /^[\p{Extended_Pictographic}\p{Emoji_Modifier}#*0-9\ufe0f]$/u;
const JOINING = /[\u0590-\u08ff\u0900-\u0dff\u0e00-\u109f\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc]/;
const LETTERS = /^\p{L}+$/u;

/** A text in pieces: what is seen, and what would not be. */
export function reveal(text: string): (string | Hidden)[] {
  const pieces: (string | Hidden)[] = [];
  let from = 0;
  for (const found of text.matchAll(INVISIBLE)) {
    if (isAtHome(text, found.index, found[0])) continue;
    if (found.index > from) pieces.push(text.slice(from, found.index));
    pieces.push(named(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push(text.slice(from));
  return pieces;
}

/** How many places of a text hold what cannot be seen. */
export function countHidden(text: string): number {
  return reveal(text).filter((piece) => typeof piece !== "string").length;
}

function isAtHome(text: string, at: number, found: string): boolean {
  const before = Array.from(text.slice(Math.max(0, at - 2), at)).pop() ?? "";
  const around = text.slice(Math.max(0, at - 1), at) + text.slice(at + found.length).slice(0, 1);
  if (found === "\u200d" || found === "\ufe0f") {
    return PICTURE.test(before) || (found === "\u200d" && JOINING.test(around));
  }
  if (found === "\u200c") return JOINING.test(around);
  return found === "\u00ad" && around.length === 2 && LETTERS.test(around);
}

function named(found: string): Hidden {
  const codes = Array.from(found, (character) => character.codePointAt(0) ?? 0);
  const first = codes[0] ?? 0;
  if (first >= 0xe0000 && first <= 0xe007f) {
    const spelt = codes.map(spell).join("");
    return { label: `tags: ${spelt}`, title: `${codes.length} invisible tag characters` };
  }
  const code = `U+${first.toString(16).toUpperCase().padStart(4, "0")}`;
  const label = codes.length > 1 ? `${code} ×${codes.length}` : code;
  return { label, title: `${label} ${NAMES[first] ?? "not visible"}` };
}

function spell(code: number): string {
  const letter = code - 0xe0000;
  return letter >= 0x20 && letter < 0x7f ? String.fromCharCode(letter) : "·";
}
