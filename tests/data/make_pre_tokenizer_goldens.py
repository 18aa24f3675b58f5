#!/usr/bin/env python3
"""Writes pre_tokenizer_goldens.json: texts with the byte offsets where each rule's pieces end.

The judge is the regex of each family's tokenizer.json, run twice: by the `regex` package and by the
`tokenizers` library that the models were made with. A text on which the two part is an error here.

Needs: pip install regex tokenizers     (made with regex 2026.11.19, tokenizers 0.23.3)

    make_pre_tokenizer_goldens.py OUTPUT.json
"""
import itertools
import json
import random
import sys

import regex
from tokenizers import Regex, pre_tokenizers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")


def by_regex(pattern):
    compiled = regex.compile(pattern)
    return lambda text: [match.group() for match in compiled.finditer(text)]


def smollm_by_regex(text):
    pieces = []
    for part in regex.split(r"(\p{N})", text):
        pieces += [part] if regex.fullmatch(r"\p{N}", part) else by_regex(GPT2)(part)
    return pieces


def by_tokenizers(*steps):
    sequence = pre_tokenizers.Sequence(list(steps))
    return lambda text: [piece for piece, _ in sequence.pre_tokenize_str(text)]


def cut_by(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


RULES = {
    "gpt-2": (by_regex(GPT2), by_tokenizers(cut_by(GPT2))),
    "llama-bpe": (by_regex(LLAMA3), by_tokenizers(cut_by(LLAMA3))),
    "qwen2": (by_regex(QWEN2), by_tokenizers(cut_by(QWEN2))),
    "smollm": (smollm_by_regex, by_tokenizers(pre_tokenizers.Digits(individual_digits=True), cut_by(GPT2))),
}

CHOSEN = [
    "it's IT'S It'S they're THEY'RE we'Ve I'LL i'll he'D 'tis 'T 'x ''s",
    "'\u017f long s, o'\u017fx, '\u212a Kelvin, '\u017ft, \u2019s", "'s't're've'm'll'd'S'T'RE'VE'M'LL'D",
    "1 12 123 1234 12345 1234567 3.14159 2024-01-01 \u00bd\u00b2\u2167 \u0661\u0662\u0663\u0664 \U0001d7d8\U0001d7d9",
    "a\tb\t\tc \t d\t", "\ta", " a", "  a", "   a  ", "a   ", " \n ", "\n\n\n", " \n\n  \n x", "a \r\n\r\n b\r\rc\n\rd",
    "x!\n\ny", "x!!!\r\n\r\n  y", "x ?\n z", "...\n", " ...\r\n \n", "\r\nx", "\n x", "\nx", "\r'", "\n'S",
    "\u00a0a\u00a0\u00a0b\u2028c\u2029 d\u3000\u3000e\u0085f\u200bg\u200dh\u205fi\ufeffj",
    "e\u0301 a\u0308\u0323b \u0301x", "\u65e5\u672c\u8a9e\u306e \ud55c\uad6d\uc5b4 \u4e2d\u65871\u4e8c2",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7\U0001f600!\n", "\u0e01\u0e33\u0e44\u0e17\u0e22 \u0939\u093f\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629\u064f \u05d0\u05b8",
    "\x00\x01\x1b[0m\x7f\x1c\x1d\x1f\x0b\x0c", "\U0001d518\U00010400\U00020000 \U000e0001\U0010ffff\ue000",
    "\u1c89\ua7cb\U00010d4a \U00010d40\U00010d41 \U0002ebf0 \u0378", "def f(x):\n    return x**2  # ok\n\n\n", "<|im_start|>user\n<|eot_id|>",
    "$100 #1 @a_b c-d e_f \u20ac5 \u00a71 5% a/b", "A\u0130\u0131\u01c5\u02b0\u00aa\u00ba", "", " ", "'", "\u00e9", "\U0001f600",
]
WORDS = [
    "'s", "'S", "'\u017f", "'t", "'re", "'rE", "'VE", "'ll", "'Ll", "'m", "'d", "'", "\r", "\n", "\r\n", "\t", " ", "  ", "\u00a0",
    "\u2028", "\u3000", "\u0085", "\x1c", "\u200d", "\u0301", "\u65e5", "\u672c", "\U0001f469\u200d\U0001f467", "\u0e33", "\u0939\u093f", "\u0639",
    "\u0661", "\u00bd", "\u2167", "\U0001d518", "\U0001d7d8", "1", "23", "4567", "a", "Bc", "\u00c9", "\u00df", "\u017f", "!", "...", "<|", "_", "-", "\x00",
]


def main():
    chance = random.Random(7)
    texts = CHOSEN + ["".join(chance.choices(WORDS, k=chance.randint(2, 12))) for _ in range(260)]
    cases = []
    for text in texts:
        case = {"text": text, "ends": {}}
        for name, judges in RULES.items():
            first, second = ([*itertools.accumulate(len(piece.encode()) for piece in judge(text))] for judge in judges)
            newer = text.startswith("\u1c89")  # of Unicode 16, which only tokenizers knows exactly
            if first != second and not newer:
                raise SystemExit(f"{name}: the judges part on {text!r}")
            case["ends"][name] = second
        cases.append(case)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(cases, out, separators=(",", ":"))
        out.write("\n")
    print(len(cases), "texts")


if __name__ == "__main__":
    main()
