"""Fixtures of the auth tests."""

from collections.abc import AsyncIterator

import pytest

from tests.auth.support import Keys, KeySetServer, make_keys


@pytest.fixture(scope="session")
def keys() -> Keys:
    return make_keys()


@pytest.fixture
async def issuer() -> AsyncIterator[KeySetServer]:
    async with KeySetServer() as server:
        yield server
