"""Seed the random streams before every test, and hypothesis: a test draws the same numbers alone and in the whole suite."""

import signal

import pytest
from hypothesis import settings

import minigrad as mg

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job ignores Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def seeded():
    mg.manual_seed(0)
