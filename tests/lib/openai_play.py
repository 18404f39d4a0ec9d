# SPDX-License-Identifier: Apache-2.0
"""Asks the same questions as responses-play.mjs through openai for Python,
unchanged, against the built-in model. Usage: openai_play.py URL KEY. Prints a
line of JSON for each step, as responses-play.mjs does. Runs in a tree of Debian
sid (tools/sid-tree) with nothing but that package."""
import io
import json
import sys
import traceback

import openai

CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
BOX = {"type": "mcp", "server_label": "glovebox"}
INCLUDE = ["code_interpreter_call.outputs"]
QUESTION = ('run: print(6 * 7)\nrun: open("/mnt/data/out.csv", "w").write("a,b")\n'
            'say: see [it](sandbox:/mnt/data/out.csv)')
ANSWER = "see [it](sandbox:/mnt/data/out.csv)"
url, key = sys.argv[1:]
client = openai.OpenAI(api_key=key, base_url=url + "/v1", timeout=60, max_retries=0,
                       _strict_response_validation=True)
steps, stage = [], {}


def step(name):
    def add(fn):
        steps.append((name, fn))
        return fn
    return add


def code_calls(response):
    return [i for i in response.output if i.type == "code_interpreter_call"]


@step("responses.create answers, with the file cited and downloadable")
def create():
    got = stage["first"] = client.responses.create(model="echo", input=QUESTION, tools=[CODE], include=INCLUDE)
    assert got.output_text == ANSWER, got.output_text
    assert got.output[0].outputs[0].logs == "42\n"
    cited = got.output[-1].content[0].annotations[0]
    file = client.containers.files.content.retrieve(cited.file_id, container_id=cited.container_id)
    assert file.read() == b"a,b"


@step("responses.stream accumulates the same, with strict validation of every event")
def stream():
    with client.responses.stream(model="echo", input="think: hm\n" + QUESTION, tools=[CODE], include=INCLUDE) as s:
        types = [e.type for e in s]
        got = s.get_final_response()
    assert got.output_text == ANSWER
    assert types[0] == "response.created" and types[-1] == "response.completed", types
    assert "response.output_text.annotation.added" in types


@step("plain iteration, then resumed by id")
def resume():
    s = client.responses.create(model="echo", input="slow: 5\nlong: 30", stream=True, background=True)
    made = None
    for event in s:
        made = made or event.response.id
        if event.sequence_number == 6:
            break
    rest = [e.sequence_number for e in client.responses.retrieve(made, stream=True, starting_after=6)]
    assert rest[0] == 7, rest[:3]


@step("responses.parse returns what the schema says")
def parse():
    from pydantic import BaseModel

    class Place(BaseModel):
        city: str
        n: int

    got = client.responses.parse(model="echo", input="x", text_format=Place)
    assert isinstance(got.output_parsed, Place)
    with client.responses.stream(model="echo", input="x", text_format=Place) as s:
        for _ in s:
            pass
        assert isinstance(s.get_final_response().output_parsed, Place)


@step("a chain keeps variables and its container")
def chain():
    a = client.responses.create(model="echo", input="run: x = 5", tools=[CODE])
    b = client.responses.create(model="echo", input="run: print(x)", tools=[CODE], previous_response_id=a.id, include=INCLUDE)
    assert b.output[0].outputs[0].logs == "5\n"
    assert a.output[0].container_id == b.output[0].container_id


@step("a function of the client is called and answered")
def function():
    tools = [{"type": "function", "name": "add", "strict": False, "parameters": {"type": "object", "properties": {}}}]
    a = client.responses.create(model="echo", input='call: add {"a": 1}', tools=tools)
    call = next(i for i in a.output if i.type == "function_call")
    b = client.responses.create(model="echo", tools=tools, previous_response_id=a.id,
                                input=[{"type": "function_call_output", "call_id": call.call_id, "output": "3"}])
    assert b.status == "completed"


@step("tools of the service: listed, called, in a stream too")
def toolbox():
    ask = 'run: open("/mnt/data/n.txt", "w").write("alpha")\ncall: read_file {"path": "n.txt"}'
    with client.responses.stream(model="echo", input=ask, tools=[CODE, BOX]) as s:
        types = [e.type for e in s]
        got = s.get_final_response()
    call = next(i for i in got.output if i.type == "mcp_call")
    assert "alpha" in call.output and got.output[0].type == "mcp_list_tools"
    assert "response.mcp_call.completed" in types


@step("background, retrieve, cancel, input items, delete")
def background():
    made = client.responses.create(model="echo", input="slow: 20\nlong: 500", background=True)
    assert client.responses.retrieve(made.id).status in ("queued", "in_progress")
    assert client.responses.cancel(made.id).status == "cancelled"
    items = list(client.responses.input_items.list(stage["first"].id, order="asc", limit=1))
    assert items[0].content[0].text == QUESTION
    client.responses.delete(made.id)
    try:
        client.responses.retrieve(made.id)
        raise AssertionError("it is still there")
    except openai.NotFoundError:
        pass


@step("conversations: made, used, listed in pages, changed, deleted")
def conversations():
    c = client.conversations.create(metadata={"k": "v"}, items=[{"type": "message", "role": "user", "content": "hello"}])
    client.responses.create(model="echo", conversation=c.id, input="run: y = 7", tools=[CODE])
    got = client.responses.create(model="echo", conversation=c.id, input="run: print(y)", tools=[CODE], include=INCLUDE)
    assert code_calls(got)[0].outputs[0].logs == "7\n"
    items = list(client.conversations.items.list(c.id, order="asc", limit=2))
    assert len(items) > 4 and items[0].content[0].text == "hello", len(items)
    one = client.conversations.items.create(c.id, items=[{"type": "message", "role": "user", "content": "more"}]).data[0]
    assert client.conversations.items.retrieve(one.id, conversation_id=c.id).id == one.id
    client.conversations.items.delete(one.id, conversation_id=c.id)
    assert client.conversations.update(c.id, metadata={"k": "w"}).metadata == {"k": "w"}
    assert client.conversations.delete(c.id).deleted


@step("files go in by id, and images as bytes")
def files():
    file = client.files.create(file=("data.csv", io.BytesIO(b"a,b\n1,2\n")), purpose="assistants")
    tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [file.id]}}
    got = client.responses.create(model="echo", input='run: import os; print(sorted(os.listdir("/mnt/data")))', tools=[tool], include=INCLUDE)
    assert "data.csv" in got.output[0].outputs[0].logs
    pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    got = client.responses.create(model="echo", input=[{"role": "user", "content": [
        {"type": "input_text", "text": "say: seen"}, {"type": "input_image", "image_url": pixel, "detail": "auto"}]}])
    assert got.output_text == "seen"


@step("chat completions, plain and streamed")
def completions():
    messages = [{"role": "user", "content": "run: print(6 * 7)"}]
    got = client.chat.completions.create(model="echo", messages=messages, tools=[{"type": "code_interpreter"}])
    assert "42" in got.choices[0].message.content
    text = "".join(c.choices[0].delta.content or "" for c in client.chat.completions.create(
        model="echo", messages=[{"role": "user", "content": "say: one two"}], stream=True) if c.choices)
    assert text == "one two", text


@step("errors have their class, code and param; a failing stream raises")
def errors():
    try:
        client.responses.create(model="nobody", input="x")
        raise AssertionError("no error")
    except openai.BadRequestError as e:
        assert (e.code, e.param) == ("model_not_found", "model")
    try:
        for _ in client.responses.create(model="echo", input="fail: overload", stream=True):
            pass
        raise AssertionError("no error")
    except openai.APIError:
        pass
    try:
        client.responses.create(model="echo", input="fail: rate")
        raise AssertionError("no error")
    except openai.RateLimitError as e:
        assert e.response.headers.get("retry-after")


for name, fn in steps:
    try:
        fn()
        error = None
    except Exception:
        error = traceback.format_exc()[-2000:]
    print(json.dumps({"name": name, "error": error}), flush=True)
