#!/usr/bin/env python3
"""Writes conversation_ids.json: 200 conversations and the token ids a reference makes of them.

The reference is what apply_chat_template does elsewhere: Jinja2 renders the model file's own template,
the `tokenizers` library, set up from the file's vocabulary, merges and control tokens, encodes the text.
No message spells a special token: there the reference and Troupe differ by design.

Needs: pip install jinja2 tokenizers     (made with Jinja2 3.1.6, tokenizers 0.23.3)

    make_conversation_goldens.py MODEL.gguf OUTPUT.json
"""
import json
import random
import struct
import sys

import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
CONTROL = 3


def metadata(path):
    """The key-value pairs of a GGUF file (version 2 or 3)."""
    with open(path, "rb") as file:

        def number(form):
            return struct.unpack(form, file.read(struct.calcsize(form)))[0]

        def value(kind):
            if kind in NUMBERS:
                return number(NUMBERS[kind])
            if kind == 8:
                return file.read(number("<Q")).decode("utf-8", "surrogateescape")
            inner, count = number("<I"), number("<Q")
            return [value(inner) for _ in range(count)]

        assert file.read(4) == b"GGUF" and number("<I") in (2, 3)
        number("<Q")
        return {value(8): value(number("<I")) for _ in range(number("<Q"))}


def reference_tokenizer(data):
    tokens = data["tokenizer.ggml.tokens"]
    merges = [tuple(line.split(" ")) for line in data["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    assert data["tokenizer.ggml.pre"] == "smollm"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    kinds = data["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False) for token, kind in zip(tokens, kinds) if kind == CONTROL]
    )
    return tokenizer


EDGES = ["", "", "", " ", "  ", "\n", "\n\n", "\t", " \n", "\n ", "\r\n", "\u00a0", "   \n\n  "]
WORDS = [
    "the", " cat", "It's", " DON'T", " 3.14", "2024-01-01", "1234567", ",", ".\n", "!?", " ", "  ", "\n\n", "\t", " caf\u00e9", "na\u00efve",
    "\u65e5\u672c\u8a9e", "\u0e44\u0e17\u0e22", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0639\u0631\u0628\u064a", "\U0001f600", "\U0001f469\u200d\U0001f467", "e\u0301", "\u2028", "\u3000", "<b>", "| |",
    "def f(x):\n    return x\n", "{{ x }}", "<|", "|>", "\u00bd", "\u2019s", "''", "_a_b", "https://a.b/c?d=1",
]


def message(chance):
    if chance.random() < 0.12:
        return chance.choice(EDGES)
    return chance.choice(EDGES) + "".join(chance.choices(WORDS, k=chance.randint(1, 9))) + chance.choice(EDGES)


def main():
    data = metadata(sys.argv[1])
    tokenizer = reference_tokenizer(data)
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    template = environment.from_string(data["tokenizer.chat_template"])
    tokens = data["tokenizer.ggml.tokens"]
    chance = random.Random(211)
    cases = []
    for number in range(200):
        turns = [["system", message(chance)]] if chance.random() < 0.4 else []
        for turn in range(chance.randint(1, 5)):
            turns.append([("user", "assistant")[turn % 2], message(chance)])
        prompt = number % 4 != 3
        text = template.render(
            messages=[{"role": role, "content": content} for role, content in turns],
            add_generation_prompt=prompt,
            bos_token=tokens[data["tokenizer.ggml.bos_token_id"]],
            eos_token=tokens[data["tokenizer.ggml.eos_token_id"]],
            tools=None,
            documents=None,
        )
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"messages": turns, "prompt": prompt, "ids": ids})
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        json.dump(cases, out, separators=(",", ":"))
        out.write("\n")
    print(len(cases), "conversations,", sum(len(case["ids"]) for case in cases), "tokens")


if __name__ == "__main__":
    main()
