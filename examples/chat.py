#!/usr/bin/env python3
"""A chat in the terminal over one WebSocket: prints each token as it comes. Ctrl-C stops the answer.

    chat.py [--url ws://127.0.0.1:8000/v1/responses] [--model NAME] [--max-tokens N]
            [--temperature T] ["message"]

Needs the package `websockets`. Without a message it asks for one line after another and keeps the conversation.
"""

import argparse
import json
import os
import signal
import sys
import threading

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect


def answer(socket, request, out=sys.stdout):
    """Sends one response.create and prints its deltas. Returns the text, or None after an error."""
    response_id = None

    def cancel(*_):
        # Sent from a thread of its own: the signal may arrive while this thread is inside the socket's code.
        message = {"type": "response.cancel"} | ({"response_id": response_id} if response_id else {})
        threading.Thread(target=socket.send, args=(json.dumps(message),)).start()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        socket.send(json.dumps(request))
        text = ""
        for message in socket:
            event = json.loads(message)
            kind = event["type"]
            if kind == "response.created":
                response_id = event["response"]["id"]
            elif kind == "response.output_text.delta":
                text += event["delta"]
                out.write(event["delta"])
                out.flush()
            elif kind in ("response.completed", "response.incomplete"):
                details = event["response"].get("incomplete_details")
                out.write(f" [{details['reason']}]\n" if details else "\n")
                return text
            elif kind == "response.failed" or kind == "error":
                error = event.get("error") or event.get("response", {}).get("error") or event
                print(f"error: {error['message']}", file=sys.stderr)
                return None
        return None
    finally:
        signal.signal(signal.SIGINT, before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--url", default="ws://127.0.0.1:8000/v1/responses")
    parser.add_argument("--model", help="default: the one that is served")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("message", nargs="?")
    arguments = parser.parse_args()

    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = {"type": "response.create", "max_output_tokens": arguments.max_tokens,
               "temperature": arguments.temperature}
    if arguments.model:
        request["model"] = arguments.model

    try:
        with connect(arguments.url, additional_headers=headers) as socket:
            if arguments.message is not None:
                return 0 if answer(socket, request | {"input": arguments.message}) is not None else 1
            conversation = []
            while True:
                try:
                    line = input("> ")
                except (EOFError, KeyboardInterrupt):
                    print()
                    return 0
                if not line.strip():
                    continue
                conversation.append({"role": "user", "content": line})
                text = answer(socket, request | {"input": conversation})
                if text is None:
                    conversation.pop()
                else:
                    conversation.append({"role": "assistant", "content": text})
    except (OSError, WebSocketException) as error:
        print(f"chat.py: {arguments.url}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
