"""The two clients are one: `client.py` is what `aio.py` gives."""

from __future__ import annotations

import inspect

import pytest

from diana.client import AsyncClient, Client, generate

METHODS = [name for name, _ in inspect.getmembers(AsyncClient, inspect.isfunction) if not name.startswith("_")]


def test_the_synchronous_client_is_made_of_the_one_for_asyncio() -> None:
    assert generate.TARGET.read_text() == generate.generated()


@pytest.mark.parametrize("name", METHODS)
def test_a_call_takes_and_promises_the_same_in_both_clients(name: str) -> None:
    one, other = getattr(AsyncClient, name), getattr(Client, name)
    assert inspect.signature(one).parameters == inspect.signature(other).parameters
    assert one.__doc__ == other.__doc__
