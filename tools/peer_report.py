"""From the figures of `tools/compare_peers` to its rows: medians, ratios with their range, floors, and how they are told. Pure."""

import dataclasses
import statistics

STREAMS = (1, 8, 16, 32)


@dataclasses.dataclass(frozen=True)
class Row:
    part: str          # what it is shown under
    title: str
    measure: str       # key of the figures
    ours: str          # part whose figures are ours
    peer: str
    floor: float = 0   # 0: none
    of: str = "ratio"  # what the floor is for: "ratio" (at least), "ratio_most" (at most) or "ours" (at least)

    @property
    def better(self):
        return "less" if self.of == "ratio_most" else "more"


def engine_rows(part, ours, peer, floors):
    titles = ["prefill of 512 tokens"] + [f"decode, {n} stream{'s' if n > 1 else ''}" for n in STREAMS]
    measures = ["prefill_512"] + [f"decode_{n}" for n in STREAMS]
    return [Row(part, *one, ours, peer, floor) for *one, floor in zip(titles, measures, floors)]


SAME, FAVOURED = (4.5, 1.9, 4.3, 3.5, 3.8), (1.7, 1.4, 3.0, 1.6, 1.6)
PARTS = {
    "engine": "tokens/s, the same file for both",
    "q4_0": "tokens/s, ours on its own file, the peer on the Q4_0 file made of it",
    "both_q4_0": "tokens/s, both on that Q4_0 file",
    "server": "16 streaming HTTP clients, prompts of 60 words, 64 tokens each",
    "busy": "decode at 32 streams beside a process that keeps one core busy",
    "context": "decode at 8 streams, 4,096 tokens of context each",
}
ROWS = [
    *engine_rows("engine", "engine", "engine", SAME),
    *engine_rows("q4_0", "engine", "q4_0", FAVOURED),
    *engine_rows("both_q4_0", "q4_0", "q4_0", FAVOURED),
    Row("server", "output tokens/s", "server_tokens_per_s", "server", "server", 4.0),
    Row("server", "time to first token, P50, ms", "server_ttft_p50_ms", "server", "server", 0.25, "ratio_most"),
    Row("server", "resident after the load, MiB", "server_resident_mib", "server", "server", 0, "ratio_most"),
    Row("server", "resident at most, MiB", "server_peak_mib", "server", "server", 0, "ratio_most"),
    Row("busy", "share of the quiet speed that is left", "busy_core_kept_share", "busy", "busy", 0.45, "ours"),
    Row("context", "tokens/s", "context_tokens_per_s", "context", "context"),
    Row("context", "K and V read, GB/s", "context_kv_gb_per_s", "context", "context"),
]


def rows_of(turns):
    """`turns`: [{round, part, whose, figures}], perhaps not all of them. Rounds count where both sides have their figure."""
    figures = {}
    for turn in turns:
        for measure, value in turn["figures"].items():
            figures.setdefault((turn["part"], turn["whose"], measure), {})[turn["round"]] = value
    out = []
    for row in ROWS:
        ours = figures.get((row.ours, "ours", row.measure), {})
        peer = figures.get((row.peer, "peer", row.measure), {})
        rounds = sorted(ours.keys() & peer.keys())
        if not rounds:
            continue
        ratios = [ours[n] / peer[n] if peer[n] else float("inf") for n in rounds]
        one = {"part": row.part, "title": row.title, "measure": row.measure, "rounds": len(rounds),
               "ours": statistics.median(ours[n] for n in rounds), "peer": statistics.median(peer[n] for n in rounds),
               "ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios), "better": row.better}
        if row.floor:
            value = one["ours"] if row.of == "ours" else one["ratio"]
            one.update(floor=row.floor, floor_of=row.of,
                       held=value <= row.floor if row.of == "ratio_most" else value >= row.floor)
        out.append(one)
    return out


def figure(x):
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


def floor_words(row):
    if "floor" not in row:
        return "-"
    sign = "<=" if row["floor_of"] == "ratio_most" else ">="
    whose = "ours " if row["floor_of"] == "ours" else ""
    return f"{whose}{sign} {row['floor']:g}: {'held' if row['held'] else 'MISSED'}"


def by_part(rows):
    return [(words, [row for row in rows if row["part"] == part]) for part, words in PARTS.items()
            if any(row["part"] == part for row in rows)]


def facts_words(facts):
    others = facts["other_processes_cores"] or [0]
    return (f"{facts['date']}, {facts['machine']}, {facts['cores']} cores, {facts['threads']} threads; {facts['rounds_done']} of "
            f"{facts['rounds']} rounds in {facts['seconds']} s; load before {facts['load_before']:.1f}, other processes "
            f"{statistics.mean(others):.2f} cores, at most {max(others):.2f}; {facts['ours']}; llama.cpp {facts['peer']}")


def warnings(facts):
    out = []
    if facts["void"]:
        out.append("VOID: other processes used more than a tenth of a core")
    if facts["quick"]:
        out.append("QUICK: sizes for trying the script out; no figure means anything")
    if facts["rounds_done"] < facts["rounds"]:
        out.append("INCOMPLETE: --resume takes the rest")
    return out + [f"requests failed: {what}" for what in facts["failed_requests"]]


def to_words(facts):
    lines = [facts_words(facts), *warnings(facts)]
    for words, rows in by_part(facts["rows"]):
        lines.append(f"\n{words:44}{'ours':>10}{'peer':>10}{'ratio':>8}{'min':>8}{'max':>8}  floor")
        lines += [f"  {row['title']:42}{figure(row['ours']):>10}{figure(row['peer']):>10}{row['ratio']:8.2f}{row['ratio_min']:8.2f}"
                  f"{row['ratio_max']:8.2f}  {floor_words(row)}" for row in rows]
    return "\n".join(lines + [""] + [f"{name}: {command}" for name, command in facts["commands"].items()])


def to_markdown(facts):
    lines = [facts_words(facts) + "."]
    lines += [f"\n**{what}**" for what in warnings(facts)]
    lines += ["", f"| work | Troupe | llama.cpp | ratio (range of {facts['rounds_done']} rounds) | floor |", "|---|---|---|---|---|"]
    for words, rows in by_part(facts["rows"]):
        lines.append(f"| *{words}* | | | | |")
        lines += [f"| {row['title']} | {figure(row['ours'])} | {figure(row['peer'])} | {row['ratio']:.2f} ({row['ratio_min']:.2f} to "
                  f"{row['ratio_max']:.2f}) | {floor_words(row)} |" for row in rows]
    return "\n".join(lines + [""] + [f"    {command}" for command in facts["commands"].values()])
