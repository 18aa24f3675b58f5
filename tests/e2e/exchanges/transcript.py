"""One exchange as text that is equal on every machine: the bytes as they came, with what must differ masked.

Masked: ids, dates, times and rates, and log-probabilities (kept beside the text and compared with a tolerance). How
many tokens share one frame depends on how busy the machine is, so neighbouring deltas that say nothing else are joined
and the choices of a stream are told one after another.
"""

import json
import re

from wire_client import Http, WebSocket

ID = re.compile(r"\b(req|chatcmpl|cmpl|resp|msg)([_-])[0-9a-f]{32}\b")
# Values whose length may differ as well, so that a Content-Length counting them is masked, too.
TIMES = re.compile(r'"((?:prompt|predicted)_(?:ms|per_second))":[-+0-9.e]+')
SECONDS = re.compile(r"\b\d+\.\d+ s\b")
DATE = re.compile(r"(?m)^Date: .*$")
BEAST = re.compile(r"Boost\.Beast/\d+")
CREATED = re.compile(r'"(created|created_at|completed_at)":\d{10}\b')
# Every negative number of an answer is a log-probability.
LOGPROB = re.compile(r"(?<=[:\[,])-\d+(?:\.\d+)?(?:e-?\d+)?(?=[,\]}])")
SEQUENCE = re.compile(r'"sequence_number":(\d+)')
TEXT = r'"((?:[^"\\]|\\.)*)"'
DELTAS = (re.compile(r'"delta":\{"content":' + TEXT), re.compile(r'"index":\d+,"text":' + TEXT),
          re.compile(r'"type":"response\.output_text\.delta".*"delta":' + TEXT))
LISTS = re.compile(r'"(?:content|tokens|token_logprobs|top_logprobs|text_offset)":(?=\[)')


class Transcript:
    """The text of one exchange, and the log-probabilities in it in their order."""

    def __init__(self):
        self.lines, self.logprobs = [], []

    def say(self, line):
        self.lines.append(line)

    def note(self, data):
        """Bytes as they came (head, body or frame), masked."""
        text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
        text = BEAST.sub("Boost.Beast/<version>", text)
        text = CREATED.sub(r'"\1":<time>', ID.sub(r"\1\2<id>", DATE.sub("Date: <date>", text)))
        text = SECONDS.sub("<seconds> s", TIMES.sub(r'"\1":<measured>', text))
        self.logprobs += [float(value) for value in LOGPROB.findall(text)]
        self.lines += LOGPROB.sub("<logprob>", text).replace("\r\n", "\n").split("\n")

    def text(self):
        return "\n".join(self.lines).rstrip("\n") + "\n"


def split_delta(event):
    """(what stays, the parts that grow) of one event; no part where it is no delta."""
    found = next((match for pattern in DELTAS if (match := pattern.search(event))), None)
    if not found or '"finish_reason":null' not in event and "output_text.delta" not in event:
        return event, []
    spans = [(found.start(1), found.end(1))]
    for key in LISTS.finditer(event, found.end()):
        if key.end() < spans[-1][1]:
            continue  # inside the list before
        _, end = json.JSONDecoder().raw_decode(event, key.end())
        spans.append((key.end() + 1, end - 1))
    rest, parts, at = "", [], 0
    for begin, end in spans:
        rest, at = rest + event[at:begin] + "\0", end
        parts.append(event[begin:end])
    return rest + event[at:], parts


def join_deltas(events):
    """Events in the order of their choices, deltas joined, sequence numbers checked and masked."""
    numbers = [int(number) for event in events for number in SEQUENCE.findall(event)]
    if numbers != list(range(len(numbers))):
        raise AssertionError(f"sequence numbers out of order: {numbers}")
    events = [SEQUENCE.sub('"sequence_number":<next>', event) for event in events]
    chosen = [int(match[1]) if (match := re.search(r'"choices":\[\{"index":(\d+)', event)) else None
              for event in events]
    places = [at for at, index in enumerate(chosen) if index is not None]
    ordered = list(events)
    for place, source in zip(places, sorted(places, key=lambda at: chosen[at])):
        ordered[place] = events[source]
    joined = []  # (what stays, parts)
    for event in ordered:
        rest, parts = split_delta(event)
        if parts and joined and joined[-1][0] == rest:
            commas = ["", *[","] * (len(parts) - 1)]
            joined[-1] = (rest, [comma.join((a, b)) for comma, a, b in zip(commas, joined[-1][1], parts)])
        else:
            joined.append((rest, parts))
    return [rest if not parts else re.sub("\0", lambda _, left=iter(parts): next(left), rest)
            for rest, parts in joined]


class RawHttp(Http):
    """Keeps the head as it came, in order and spelling."""

    def read_head(self):
        mark = self.buffer.find(b"\r\n\r\n")
        while mark < 0:
            self.fill()
            mark = self.buffer.find(b"\r\n\r\n")
        self.head = self.buffer[:mark].decode("latin-1")
        return super().read_head()


def note_reply(script, http, no_body=False):
    """Head and body of the reply that `http` is about to get."""
    http.read_head()
    head = http.head
    body = b"" if no_body or http.status in (101, 204) else http.read_body()
    streamed = "event-stream" in http.headers.get("content-type", "")
    text = body.decode("utf-8", "backslashreplace")
    page = "text/plain" in http.headers.get("content-type", "")
    if page or TIMES.search(text) or LOGPROB.search(text) or SECONDS.search(text):
        head = re.sub(r"Content-Length: \d+", "Content-Length: <length>", head)
    script.note(head)
    script.say("")
    if streamed:
        if not text.endswith("\n\n"):
            raise AssertionError(f"the stream ended inside an event: {text[-80:]!r}")
        text = "\n\n".join(join_deltas(text[:-2].split("\n\n")))
    elif page:
        # A metrics page: which families there are; their values and words are no part of an answer.
        text = "\n".join(sorted(line for line in text.splitlines() if line.startswith("# TYPE")))
    script.note(text)


class RawWebSocket(WebSocket, RawHttp):
    """One WebSocket whose handshake and frames go into the transcript."""

    key = "dGhlIHNhbXBsZSBub25jZQ=="

    def shake(self, script, path="/v1/responses", headers=(), **changed):
        fields = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": self.key,
                  "Sec-WebSocket-Version": "13", **changed}
        self.request("GET", path, None, [*fields.items(), *headers])
        note_reply(script, self)
        return self

    def collect(self, last):
        """Frames up to the first whose type is one of `last`, or up to a pong or the close, as lines."""
        frames = []
        while True:
            opcode, data = self.read_frame()
            if opcode == 9:
                self.send_frame(10, data)
            elif opcode == 10:
                return [*frames, "(pong) " + data.decode()]
            elif opcode == 8:
                return [*frames, f"(close) {int.from_bytes(data[:2], 'big')} {data[2:].decode()}".rstrip()]
            else:
                frames.append(data.decode())
                if json.loads(data)["type"] in last:
                    return frames


def note_frames(script, frames):
    for frame in join_deltas(frames):
        script.note(frame)
