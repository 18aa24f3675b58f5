"""Clients that were not written for this server: the openai package, curl, and the example of this repository."""

import json
import pathlib
import shlex
import signal
import subprocess
import sys

import openai
import pytest

from troupe_process import binary, default_model

root = pathlib.Path(__file__).resolve().parents[2]
MESSAGES = [{"role": "user", "content": "Name three colours."}]


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as opened:
        yield opened


@pytest.fixture
def model(client):
    return client.models.list().data[0].id


def test_openai_chat_streams_and_the_stream_equals_the_plain_reply(client, model):
    arguments = dict(model=model, messages=MESSAGES, temperature=0, max_completion_tokens=24)
    plain = client.chat.completions.create(**arguments)
    stream = client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **arguments)
    text, usage = "", None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
    assert text and text == plain.choices[0].message.content
    assert usage.completion_tokens == plain.usage.completion_tokens


def test_openai_two_choices_share_a_prompt_and_differ(client, model):
    reply = client.chat.completions.create(model=model, messages=MESSAGES, n=2, seed=3, temperature=1.0,
                                           max_completion_tokens=24)
    assert [choice.index for choice in reply.choices] == [0, 1]
    assert reply.choices[0].message.content != reply.choices[1].message.content


def test_openai_completions_score_an_echoed_prompt(client, model):
    reply = client.completions.create(model=model, prompt="The sky is blue", max_tokens=0, echo=True, logprobs=1)
    choice = reply.choices[0]
    assert choice.text == "The sky is blue"
    assert "".join(choice.logprobs.tokens) == "The sky is blue"
    assert choice.logprobs.token_logprobs[0] is None
    assert all(value <= 0 for value in choice.logprobs.token_logprobs[1:])
    assert len(choice.logprobs.text_offset) == len(choice.logprobs.tokens)
    for value, best in zip(choice.logprobs.token_logprobs[1:], choice.logprobs.top_logprobs[1:]):
        assert max(best.values()) >= value


def test_openai_responses_stream_over_a_websocket(client, model):
    plain = client.chat.completions.create(model=model, messages=MESSAGES, temperature=0, max_completion_tokens=16)
    with client.responses.connect() as connection:
        for _ in range(2):
            connection.response.create(model=model, input=[{"role": "user", "content": "Name three colours."}],
                                       temperature=0, max_output_tokens=16)
            text, kinds = "", []
            for event in connection:
                kinds.append(event.type)
                if event.type == "response.output_text.delta":
                    text += event.delta
                if event.type in ("response.completed", "response.incomplete", "response.failed", "error"):
                    break
            assert kinds[0] == "response.created"
            assert kinds[-1] in ("response.completed", "response.incomplete")
            assert event.response.usage.output_tokens == plain.usage.completion_tokens
            assert text == plain.choices[0].message.content == event.response.output_text


def test_openai_errors_carry_code_and_request_id(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)
    assert caught.value.code == "model_not_found"
    assert caught.value.request_id


def test_the_printed_curl_command_streams_an_answer(server):
    command = shlex.split(server.ready["curl"])
    assert command[0] == "curl"
    done = subprocess.run([*command, "--silent", "--show-error", "--max-time", "60"],
                          capture_output=True, text=True, check=True)
    events = [line[6:] for line in done.stdout.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    text = "".join(choice["delta"].get("content") or ""
                   for event in events[:-1] for choice in json.loads(event)["choices"])
    assert len(text) > 10


def chat(server, *arguments):
    url = server.url.replace("http://", "ws://") + "/v1/responses"
    return subprocess.Popen([sys.executable, str(root / "examples/chat.py"), "--url", url, *arguments],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_chat_example_prints_an_answer(server):
    out, err = (process := chat(server, "--max-tokens", "24", "--temperature", "0", "Name three colours.")).communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.strip()


def test_the_chat_example_keeps_a_conversation(server):
    process = chat(server, "--max-tokens", "16", "--temperature", "0")
    out, err = process.communicate("My name is Ada.\nWhat is my name?\n", timeout=300)
    assert process.returncode == 0, err
    assert out.count("> ") == 3 and len(out) > 40


def test_ctrl_c_in_the_chat_example_cancels_the_answer(server):
    process = chat(server, "--max-tokens", "4000", "--temperature", "0", "Write a long story about a lighthouse.")
    first = process.stdout.read(1)  # tokens are arriving
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "[cancelled]" in first + out
    server.wait_idle()


def test_D14_the_hello_example_prints_why_it_was_refused():
    hello = pathlib.Path(binary).parent / "hello"
    done = subprocess.run([hello, default_model, "a b c " * 10_000], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "refused, 0 tokens" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("hello: ") and "tokens" in line
