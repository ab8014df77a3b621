"""What the scripts share: clients of the daemon named in DYND_BASE, and a runner.

A script's functions whose names begin with `check_` are its checks; each prints its name when it is
through, so that the first one that is not is known. Knows no test framework: the scripts need what
the SDKs need, and nothing else.
"""

import os
import traceback
from contextlib import contextmanager

import anthropic
import openai

BASE = os.environ["DYND_BASE"]
MODEL = "MiniMaxAI/MiniMax-M2.5"


def openai_client(**options):
    options.setdefault("max_retries", 0)
    return openai.OpenAI(base_url=f"{BASE}/v1", api_key="x", timeout=120, **options)


def anthropic_client(**options):
    options.setdefault("max_retries", 0)
    return anthropic.Anthropic(base_url=BASE, api_key="x", timeout=120, **options)


@contextmanager
def raises(kind):
    """The block must fail with exactly this exception, which is then `.error`."""

    class Caught:
        error = None

    caught = Caught()
    try:
        yield caught
    except Exception as error:
        assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {error}"
        caught.error = error
        return
    raise AssertionError(f"{kind.__name__} did not come")


def user(text):
    return [{"role": "user", "content": text}]


def run(names):
    checks = {name: do for name, do in names.items() if name.startswith("check_")}
    assert checks, "a script without checks"
    for name, do in checks.items():
        try:
            do()
        except Exception:
            traceback.print_exc()
            raise SystemExit(f"FAILED: {name}")
        print(f"passed: {name}", flush=True)
