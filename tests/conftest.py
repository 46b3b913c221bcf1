"""What holds for every test: random streams start alike, so that a test alone draws what it draws in the whole suite."""

import signal

import pytest

import minigrad as mg

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background begins deaf to Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def seeded():
    mg.manual_seed(0)
