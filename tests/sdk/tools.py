"""Tools through the SDKs, against a daemon whose model follows a script (see the Rust side)."""

import json

from support import MODEL, anthropic_client, openai_client, run, user

ASK = user("[[weather]] What is the weather in Paris?")
SAID = "I will look it up."
ANSWER = "It is sunny in Paris."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
ARGUMENTS = {"city": "Paris", "days": 2}
CHAT_TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "Looks it up.", "parameters": SCHEMA},
}


def check_chat():
    client = openai_client()
    ask = dict(model=MODEL, tools=[CHAT_TOOL], temperature=0)
    first = client.chat.completions.create(**ask, messages=ASK)
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content.strip() == SAID
    [call] = choice.message.tool_calls
    assert call.type == "function" and call.function.name == "weather"
    assert json.loads(call.function.arguments) == ARGUMENTS

    with client.chat.completions.stream(**ask, messages=ASK) as stream:
        deltas = [e for e in stream if e.type == "tool_calls.function.arguments.delta"]
        final = stream.get_final_completion()
    [streamed] = final.choices[0].message.tool_calls
    assert json.loads(streamed.function.arguments) == ARGUMENTS
    assert len(deltas) > 1, "arguments come as they are written"

    history = ASK + [
        choice.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "sun"},
    ]
    second = client.chat.completions.create(**ask, messages=history)
    assert second.choices[0].message.content == ANSWER
    assert second.choices[0].finish_reason == "stop"
    assert second.usage.prompt_tokens_details.cached_tokens > 0


def check_responses():
    client = openai_client()
    tool = {"type": "function", "strict": False, **CHAT_TOOL["function"]}
    ask = dict(model=MODEL, tools=[tool], temperature=0)
    first = client.responses.create(**ask, input=ASK)
    [call] = [item for item in first.output if item.type == "function_call"]
    assert call.name == "weather" and json.loads(call.arguments) == ARGUMENTS
    assert first.output_text.strip() == SAID

    with client.responses.stream(**ask, input=ASK) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.function_call_arguments.delta" in kinds
    assert [item.type for item in final.output] == [item.type for item in first.output]

    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    by_history = client.responses.create(**ask, input=[*ASK, *first.output, result])
    assert by_history.output_text == ANSWER
    by_id = client.responses.create(**ask, previous_response_id=first.id, input=[result])
    assert by_id.output_text == ANSWER


def check_messages():
    client = anthropic_client()
    tool = {"name": "weather", "description": "Looks it up.", "input_schema": SCHEMA}
    ask = dict(model=MODEL, tools=[tool], max_tokens=500)
    first = client.messages.create(**ask, messages=ASK)
    assert first.stop_reason == "tool_use"
    assert [block.type for block in first.content] == ["text", "tool_use"]
    text, call = first.content
    assert text.text.strip() == SAID and (call.name, call.input) == ("weather", ARGUMENTS)

    with client.messages.stream(**ask, messages=ASK) as stream:
        parts = [event.partial_json for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert final.content[1].input == ARGUMENTS and len(parts) > 1

    history = ASK + [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": "sun"},
        ]},
    ]
    second = client.messages.create(**ask, messages=history)
    assert second.content[0].text == ANSWER and second.stop_reason == "end_turn"


run(globals())
