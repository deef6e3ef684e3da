"""Options of the tests with a cluster."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=20, help="how often the leader is killed")
    parser.addoption("--writes", type=int, default=500, help="memories stored a second")
    parser.addoption("--searches", type=int, default=200, help="searches a second")
