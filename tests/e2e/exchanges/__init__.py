"""Recorded exchanges: what the product says on the wire, byte for byte, held against tests/data/exchanges.txt.

`cases.py` lists them, `transcript.py` turns one into text with ids, times and dates masked, `record.py` writes the
record. `test_exchanges.py` replays them all.
"""
