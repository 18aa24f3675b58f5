#!/usr/bin/env python3
"""Random blocks of quantized weights and what they stand for: make_weight_blocks.py OUTPUT.json

Needs `pip install gguf numpy`; `weight_blocks.json` was made with gguf 0.19.0. Every type gets one row of
blocks whose bytes are random; then the scales of some blocks are set to extremes. `bytes` and `values`
(little-endian f32) are hexadecimal.
"""
import json
import sys

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

# Where a block's f16 numbers stand.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
# Of the blocks, in order: ordinary, negative, the largest, the smallest (a subnormal), zero and minus zero.
SCALES = [(0.0123, 0.456), (-0.31, -0.0071), (65504.0, -65504.0), (-6e-8, 6e-8), (0.0, -0.0)]


def row_of(name: str, random: np.random.Generator) -> np.ndarray:
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    row = random.integers(0, 256, (len(SCALES), size), dtype=np.uint8)
    for block, scales in zip(row, SCALES):
        for at, scale in zip(HALVES[name], scales):
            block[at : at + 2] = np.array([scale], dtype=np.float16).view(np.uint8)
    if name in ("Q4_K", "Q5_K"):
        row[2, 4:16] = 0xFF  # every scale and minimum 63
    if name == "Q6_K":
        row[2, 192:200] = 0x80  # scales of -128
        row[2, 200:208] = 0x7F
    return row.reshape(-1)


def main() -> None:
    random = np.random.default_rng(20)
    out = {}
    for name in HALVES:
        data = row_of(name, random)
        values = gguf.quants.dequantize(data, GGMLQuantizationType[name])
        out[name] = {"bytes": data.tobytes().hex(), "values": values.astype("<f4").tobytes().hex()}
    # Zeros, one, infinities, the smallest and largest numbers, then random ones.
    special = [0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x0001, 0x8001, 0x007F, 0x7F7F]
    halves = np.concatenate([special, random.integers(0, 0x7F80, 22)]).astype("<u2")
    values = gguf.quants.dequantize(halves.view(np.uint8), GGMLQuantizationType.BF16)
    out["BF16"] = {"bytes": halves.tobytes().hex(), "values": values.tobytes().hex()}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(out, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
