#!/usr/bin/env python3
"""Writes tests/data/exchanges.txt from a build of the product.

    .venv/bin/python tests/e2e/exchanges/record.py [NAME...]     these exchanges again; all without a name

`TROUPE_BINARY` names another build. Whoever records again because bytes were changed on purpose adds a line to
tests/data/exchanges.md: name, before, after, why.
"""

import pathlib
import sys
import time

here = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(here.parents[3] / "tools"), str(here.parents[1])]

from exchanges.replay import Replay, read_record, write_record  # noqa: E402
from exchanges.cases import CASES  # noqa: E402


def main():
    wanted = sys.argv[1:] or list(CASES)
    if unknown := set(wanted) - set(CASES):
        sys.exit(f"record: no exchange is named {', '.join(sorted(unknown))}")
    kept = read_record() if sys.argv[1:] else {}
    with Replay() as replay:
        fresh = {}
        for name in CASES:
            if name in wanted:
                begun = time.monotonic()
                fresh[name] = replay.run(name)
                print(f"record: {time.monotonic() - begun:6.2f} s  {name}", flush=True)
    both = {**kept, **fresh}
    write_record({name: both[name] for name in CASES if name in both})
    print(f"record: {len(fresh)} exchanges written")


main()
