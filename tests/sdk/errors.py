"""Refusals become the SDKs' own exceptions, and what is worth a retry is retried.

The daemon is strict about models and answers one request at a time.
"""

import threading
import time
import urllib.request

import anthropic
import openai
from support import BASE, MODEL, anthropic_client, openai_client, raises, run, user

LONG = "x" * 200_000
CALLS = {
    "chat": lambda client, **more: client.chat.completions.create(
        **{"model": MODEL, "messages": user("hi"), "max_tokens": 4, **more}
    ),
    "responses": lambda client, **more: client.responses.create(
        **{"model": MODEL, "input": "hi", "max_output_tokens": 4, **more}
    ),
    "messages": lambda client, **more: client.messages.create(
        **{"model": MODEL, "messages": user("hi"), "max_tokens": 4, **more}
    ),
}


def client_of(name, **options):
    vendor = anthropic if name == "messages" else openai
    make = anthropic_client if name == "messages" else openai_client
    return vendor, make(**options)


def check_unknown_models():
    for name, call in CALLS.items():
        vendor, client = client_of(name)
        with raises(vendor.NotFoundError) as caught:
            call(client, model="gpt-9")
        assert "gpt-9" in str(caught.error) and MODEL in str(caught.error)
        assert caught.error.request_id
    for make, vendor in ((openai_client, openai), (anthropic_client, anthropic)):
        with raises(vendor.NotFoundError):
            make().models.retrieve("no/such-model")


def check_overflow():
    for name, call in CALLS.items():
        vendor, client = client_of(name)
        body = {"input": LONG} if name == "responses" else {"messages": user(LONG)}
        for stream in (False, True):
            with raises(vendor.BadRequestError) as caught:
                call(client, stream=stream, **body)
            if name == "messages":
                assert "prompt is too long: " in caught.error.message
                assert caught.error.body["error"]["type"] == "invalid_request_error"
            else:
                assert caught.error.code == "context_length_exceeded"
                assert "maximum context length" in caught.error.message


def check_wrong_values():
    for name, call in CALLS.items():
        vendor, client = client_of(name)
        with raises(vendor.BadRequestError) as caught:
            call(client, extra_body={"temperature": -5})
        assert "temperature" in str(caught.error)


class Busy:
    """Holds the daemon's one place with a stream, until it has refused someone."""

    def __enter__(self):
        self.stream = openai_client().chat.completions.create(
            model=MODEL, messages=user("hi"), stream=True, max_tokens=7000,
            extra_body={"ignore_eos": True},
        )
        next(iter(self.stream))
        return self

    def leave_after(self, refusals):
        """Gives the place up when that many refusals more than now have been sent."""
        before = refused()

        def leave():
            while refused() < before + refusals:
                time.sleep(0.01)
            self.stream.close()

        thread = threading.Thread(target=leave)
        thread.start()
        return thread

    def __exit__(self, *_):
        self.stream.close()
        while "dynd_requests_in_flight 0" not in metrics():
            time.sleep(0.01)


def metrics():
    return urllib.request.urlopen(f"{BASE}/metrics").read().decode()


def refused():
    lines = [line for line in metrics().splitlines() if 'status="429"' in line]
    return sum(int(line.rsplit(" ", 1)[1]) for line in lines)


def check_busy():
    with Busy():
        for name, call in CALLS.items():
            vendor, client = client_of(name)
            with raises(vendor.RateLimitError) as caught:
                call(client)
            assert 1 <= int(caught.error.response.headers["retry-after"]) <= 60
        counted = anthropic_client().messages.count_tokens(model=MODEL, messages=user("hi"))
        assert counted.input_tokens > 0, "counting needs no place"


def check_retries():
    for name in CALLS:
        _, client = client_of(name, max_retries=3)
        with Busy() as busy:
            leaving = busy.leave_after(refusals=1)
            if name == "responses":
                raw = client.responses.with_raw_response.create(
                    model=MODEL, input="hi", max_output_tokens=4
                )
            elif name == "chat":
                raw = client.chat.completions.with_raw_response.create(
                    model=MODEL, messages=user("hi"), max_tokens=4
                )
            else:
                raw = client.messages.with_raw_response.create(
                    model=MODEL, messages=user("hi"), max_tokens=4
                )
            leaving.join()
        assert raw.retries_taken >= 1 and raw.parse(), name


run(globals())
