"""What holds for every test: random streams and hypothesis start alike, alone as in the whole suite.

Hypothesis has no deadline: a busy machine makes no test fail.
"""

import signal

import pytest
from hypothesis import settings

import minigrad as mg

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background begins deaf to Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def seeded():
    mg.manual_seed(0)
