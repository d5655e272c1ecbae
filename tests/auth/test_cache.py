"""Remembered verdicts are bounded in number and in time, and keep no token."""

from server.auth.cache import VerifiedTokens
from server.auth.caller import ANONYMOUS, caller


def test_a_verdict_ends_with_its_token_or_its_age() -> None:
    clock = [1000.0]
    cache = VerifiedTokens(max_age=60, now=lambda: clock[0])
    cache.put("short", ANONYMOUS, expires=1010)
    cache.put("long", ANONYMOUS, expires=9999)
    cache.put("endless", ANONYMOUS, expires=None)
    clock[0] = 1009.9
    assert [cache.get(text) for text in ("short", "long", "endless")] == [ANONYMOUS] * 3
    clock[0] = 1010
    assert [cache.get(text) for text in ("short", "long", "endless")] == [None, ANONYMOUS, ANONYMOUS]
    clock[0] = 1060
    assert [cache.get(text) for text in ("short", "long", "endless")] == [None, None, None]


def test_a_clock_set_back_ends_every_verdict() -> None:
    clock = [1000.0]
    cache = VerifiedTokens(max_age=60, now=lambda: clock[0])
    cache.put("token", ANONYMOUS, expires=None)
    clock[0] = 900
    assert cache.get("token") is None


def test_the_least_recently_used_verdict_goes_first() -> None:
    cache = VerifiedTokens(size=2, now=lambda: 0.0)
    one, two, three = (caller("bearer", "", name) for name in ("one", "two", "three"))
    cache.put("one", one, None)
    cache.put("two", two, None)
    assert cache.get("one") is one
    cache.put("three", three, None)
    assert cache.get("two") is None
    assert (cache.get("one"), cache.get("three")) == (one, three)


def test_no_token_is_kept() -> None:
    cache = VerifiedTokens(now=lambda: 0.0)
    cache.put("s3cret-token", ANONYMOUS, None)
    assert "s3cret-token" not in str(vars(cache))
