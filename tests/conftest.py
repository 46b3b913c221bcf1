"""What holds for every test: random streams start alike, so that a test alone draws what it draws in the whole suite."""

import pytest

import minigrad as mg


@pytest.fixture(autouse=True)
def seeded():
    mg.manual_seed(0)
