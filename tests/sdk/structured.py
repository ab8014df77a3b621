"""Structured outputs: a model of random weights says what the schema allows, and nothing else.

Left alone it would put space after space between two parts of JSON, which is allowed, until its
limit: the biases keep it from that. Tokens of the built-in model are bytes.
"""

from typing import Literal

import openai
from pydantic import BaseModel
from support import MODEL, anthropic_client, openai_client, run, user


NO_SPACES = {"logit_bias": {str(ord(space)): -100 for space in " \t\r\n"}}


class Weather(BaseModel):
    city: Literal["Paris", "Rome"]
    sunny: bool


SCHEMA = openai.pydantic_function_tool(Weather, name="weather")["function"]["parameters"]


def check_chat():
    client = openai_client()
    ask = dict(model=MODEL, messages=user("hi"), max_tokens=200, extra_body=NO_SPACES)
    parsed = client.chat.completions.parse(**ask, response_format=Weather)
    assert isinstance(parsed.choices[0].message.parsed, Weather)
    with client.chat.completions.stream(**ask, response_format=Weather) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Weather)


def check_chat_tool_choice():
    tool = openai.pydantic_function_tool(Weather, name="weather")
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        parsed = openai_client().chat.completions.parse(
            model=MODEL, messages=user("hi"), max_tokens=400, tools=[tool], tool_choice=choice,
            extra_body=NO_SPACES,
        )
        [call] = parsed.choices[0].message.tool_calls
        assert isinstance(call.function.parsed_arguments, Weather)


def check_responses():
    parsed = openai_client().responses.parse(
        model=MODEL, input="hi", max_output_tokens=200, text_format=Weather, extra_body=NO_SPACES
    )
    assert isinstance(parsed.output_parsed, Weather)


def check_messages():
    client = anthropic_client()
    parsed = client.messages.parse(
        model=MODEL, messages=user("hi"), max_tokens=200, output_format=Weather, extra_body=NO_SPACES
    )
    assert isinstance(parsed.parsed_output, Weather)
    tool = {"name": "weather", "input_schema": SCHEMA}
    message = client.messages.create(
        model=MODEL, messages=user("hi"), max_tokens=400, tools=[tool],
        tool_choice={"type": "tool", "name": "weather"}, extra_body=NO_SPACES,
    )
    [call] = [block for block in message.content if block.type == "tool_use"]
    assert Weather(**call.input) and message.stop_reason == "tool_use"


run(globals())
