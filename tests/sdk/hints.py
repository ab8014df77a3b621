"""Hints through the SDKs' `extra_body`, exactly as one deployment sends them."""

from support import MODEL, anthropic_client, openai_client, run, user

NVEXT = {
    "agent_hints": {"osl": 256, "speculative_prefill": True, "priority": 10},
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
}
NAMES = {
    "agent_hints.osl",
    "agent_hints.speculative_prefill",
    "agent_hints.priority",
    "cache_control",
}
SHORT = 4


def outcomes(answer):
    hints = answer.nvext["hints"]
    return {hint["name"]: hint["outcome"] for hint in hints}


def assert_answered(found):
    assert set(found) == NAMES, found
    assert not {"rejected", "missing"} & set(found.values()), found


def check_the_model_has_a_slash_in_its_name():
    assert openai_client().models.retrieve(MODEL).id == MODEL
    assert anthropic_client().models.retrieve(MODEL).id == MODEL


def check_chat():
    client = openai_client()
    ask = dict(
        model=MODEL, messages=user("hi"), max_tokens=SHORT, extra_body={"nvext": NVEXT}
    )
    assert_answered(outcomes(client.chat.completions.create(**ask)))
    last = list(client.chat.completions.create(**ask, stream=True))[-1]
    assert_answered(outcomes(last))


def check_responses():
    client = openai_client()
    ask = dict(model=MODEL, input="hi", max_output_tokens=SHORT, extra_body={"nvext": NVEXT})
    assert_answered(outcomes(client.responses.create(**ask)))
    last = list(client.responses.create(**ask, stream=True))[-1]
    assert_answered(outcomes(last.response))


def check_messages():
    client = anthropic_client()
    ask = dict(
        model=MODEL, messages=user("hi"), max_tokens=SHORT, extra_body={"nvext": NVEXT}
    )
    raw = client.messages.with_raw_response.create(**ask)
    entries = [entry.strip().split(";")[0] for entry in raw.headers["x-dynd-hints"].split(", ")]
    found = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    assert_answered(found)
    message = raw.parse()
    assert message.type == "message" and not hasattr(message, "nvext"), "the body is the vendor's"


run(globals())
