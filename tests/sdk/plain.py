"""Text answers on all three endpoints, whole and streamed with the SDKs' own helpers."""

from support import MODEL, anthropic_client, openai_client, run, user

SHORT = 12


def check_models():
    client = openai_client()
    assert MODEL in [model.id for model in client.models.list()]
    model = client.models.retrieve(MODEL)
    assert (model.id, model.object, model.owned_by) == (MODEL, "model", "dynd")
    client = anthropic_client()
    listed = client.models.list(limit=1)
    assert listed.data[0].id == MODEL and listed.has_more
    assert [model.id for model in client.models.list(limit=1)] == [MODEL, "small"], "all pages"
    model = client.models.retrieve(MODEL)
    assert (model.id, model.type, model.display_name) == (MODEL, "model", MODEL)
    assert model.created_at.year >= 2024


def check_chat():
    client = openai_client()
    ask = dict(model=MODEL, messages=user("hi"), max_tokens=SHORT, temperature=0, seed=1)
    whole = client.chat.completions.create(**ask)
    assert whole.object == "chat.completion" and whole.model == MODEL
    assert whole.choices[0].finish_reason in ("stop", "length")
    usage = whole.usage
    assert 0 < usage.completion_tokens <= SHORT
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens == 0

    chunks = list(
        client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True})
    )
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = whole.choices[0].message.content or ""
    assert "".join(choice.delta.content or "" for choice in choices) == text
    assert choices[-1].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage.completion_tokens == usage.completion_tokens

    two = client.chat.completions.create(**{**ask, "temperature": 1}, n=2, logprobs=True)
    assert [choice.index for choice in two.choices] == [0, 1]
    assert len(two.choices[0].logprobs.content) > 0


def check_completions():
    client = openai_client()
    ask = dict(model=MODEL, prompt="one two", max_tokens=SHORT, temperature=0)
    whole = client.completions.create(**ask)
    assert whole.object == "text_completion" and whole.usage.prompt_tokens == 7
    pieces = [chunk.choices[0].text for chunk in client.completions.create(**ask, stream=True)]
    assert "".join(pieces) == whole.choices[0].text


def check_responses():
    client = openai_client()
    ask = dict(model=MODEL, input="first of its kind", max_output_tokens=SHORT, temperature=0, store=False)
    whole = client.responses.create(**ask)
    assert whole.object == "response" and whole.model == MODEL
    assert whole.status in ("completed", "incomplete")
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    assert whole.usage.input_tokens_details.cached_tokens == 0

    with client.responses.stream(**ask) as stream:
        kinds = []
        pieces = []
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                pieces.append(event.delta)
    assert kinds[0] == "response.created" and kinds[-1] == f"response.{whole.status}", kinds
    assert "".join(pieces) == whole.output_text

    counted = client.responses.input_tokens.count(model=MODEL, input="first of its kind")
    assert counted.input_tokens == whole.usage.input_tokens


def check_conversations_continue_by_id():
    client = openai_client()
    first = client.responses.create(
        model=MODEL, input="my name is Ada", max_output_tokens=SHORT, temperature=0
    )
    more = dict(model=MODEL, max_output_tokens=SHORT, temperature=0)
    second = client.responses.create(previous_response_id=first.id, input="and now?", **more)
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
    assert second.usage.input_tokens_details.cached_tokens > 0


def check_messages():
    client = anthropic_client()
    ask = dict(
        model=MODEL,
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        messages=user("hi"),
        extra_body={"temperature": 0},
    )
    whole = client.messages.create(**ask, max_tokens=SHORT)
    assert (whole.type, whole.role, whole.model) == ("message", "assistant", MODEL)
    assert whole.stop_reason in ("end_turn", "max_tokens")
    assert 0 < whole.usage.output_tokens <= SHORT
    billed = (
        whole.usage.input_tokens
        + whole.usage.cache_creation_input_tokens
        + whole.usage.cache_read_input_tokens
    )
    assert client.messages.count_tokens(**{k: ask[k] for k in ("model", "system", "messages")}) \
        .input_tokens == billed

    with client.messages.stream(**ask, max_tokens=SHORT) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
        assert stream.request_id, "the SDK reads it from the header"
    assert "".join(pieces) == "".join(block.text for block in whole.content)
    assert [block.text for block in final.content] == [block.text for block in whole.content]
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens

    beta = client.beta.messages.create(
        **ask, max_tokens=SHORT, betas=["interleaved-thinking-2025-05-14", "unknown-2099-01-01"]
    )
    assert beta.content[0].text == whole.content[0].text


def check_stop_strings():
    chat = openai_client().chat.completions.create(
        model=MODEL, messages=user("hi"), max_tokens=400, stop=["e", "a", " "], temperature=1
    )
    message = anthropic_client().messages.create(
        model=MODEL, messages=user("hi"), max_tokens=400, stop_sequences=["e", "a", " "]
    )
    if message.stop_reason == "stop_sequence":
        assert message.stop_sequence in ("e", "a", " ")
    text = chat.choices[0].message.content or ""
    assert not set("ea ") & set(text), text


run(globals())
