"""One attempt: what an answer means, that the policy is asked each time, and that slow hosts leave room."""

from __future__ import annotations

import asyncio
import email.utils
import time

import pytest

from server.push.attempt import Lanes, Poster, host_of
from server.push.connect import CallbackClient
from server.push.policy import CallbackPolicy
from server.push.settings import Persistence
from tests.push.hooks import Hook
from tests.push.support import ScriptedDns


def poster(*, resolver: ScriptedDns | None = None, private: bool = True, width: int = 8) -> Poster:
    policy = CallbackPolicy(push_allow_private_targets_for_tests_only=private, resolver=resolver)
    return Poster(CallbackClient(policy), None, Lanes(width))


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, "delivered"),
        (202, "delivered"),
        (204, "delivered"),
        (301, "never"),
        (302, "never"),
        (307, "never"),
        (400, "never"),
        (403, "never"),
        (404, "never"),
        (410, "never"),
        (408, "later"),
        (425, "later"),
        (429, "later"),
        (500, "later"),
        (503, "later"),
    ],
)
async def test_an_answers_status_decides(status: int, verdict: str) -> None:
    async with Hook(always=status) as hook:
        tried = await poster().post(hook.url, "msg_1", b"{}", {})
    assert (tried.verdict, tried.said) == (verdict, str(status))


async def test_nobody_there_is_tried_later() -> None:
    async with Hook() as hook:
        gone = hook.url
    tried = await poster().post(gone, "msg_1", b"{}", {})
    assert (tried.verdict, tried.said) == ("later", "connect")


async def test_a_host_that_moved_inside_since_it_was_registered_is_never_called() -> None:
    dns = ScriptedDns([["93.184.216.34"], ["127.0.0.1"]])
    policy = CallbackPolicy(resolver=dns)
    async with Hook() as hook:
        url = f"http://hooks.example.com:{hook.port}/"
        await policy.check(url)
        tried = await Poster(CallbackClient(policy), None, Lanes(8)).post(url, "msg_1", b"{}", {})
        assert (tried.verdict, tried.said) == ("never", "not_public")
        assert hook.told == []


async def test_without_a_key_repeats_can_be_told_all_the_same() -> None:
    async with Hook() as hook:
        await poster().post(hook.url, "msg_1", b"{}", {})
    head = hook.told[0].head
    assert head["webhook-id"] == "msg_1"
    assert abs(int(head["webhook-timestamp"]) - time.time()) < 10
    assert "webhook-signature" not in head


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        ("3", 3),
        (" 7 ", 7),
        ("99999999999999", 86400),
        ("soon", None),
        ("-1", None),
        (3600, 3600),
        (-3600, 0),
    ],
)
async def test_a_wish_to_wait_is_read_in_both_forms(wish: str | int, seconds: float | None) -> None:
    if isinstance(wish, int):
        wish = email.utils.formatdate(time.time() + wish, usegmt=True)
    async with Hook(always=503, headers=[f"retry-after: {wish}"]) as hook:
        tried = await poster().post(hook.url, "msg_1", b"{}", {})
    assert tried.asked_s == (pytest.approx(seconds, abs=30) if seconds is not None else None)


def test_waits_double_with_jitter_up_to_a_bound() -> None:
    insistent = Persistence(attempts=8, first_s=1, longest_s=300)
    assert [insistent.delay(attempt, 1.0, None) for attempt in range(1, 8)] == [1, 2, 4, 8, 16, 32, 64]
    assert insistent.delay(1, 0.0, None) == 0.5
    assert insistent.delay(60, 1.0, None) == 300
    assert insistent.delay(1, 1.0, 20) == 20
    assert insistent.delay(1, 1.0, 86400) == 300
    assert insistent.delay(7, 1.0, 1) == 64


async def test_a_slow_host_leaves_room_for_the_others() -> None:
    """A quarter of the places: one host that never answers holds two of eight, however much waits for it."""
    lanes = Lanes(8)
    release = asyncio.Event()
    inside: list[str] = []

    async def use(host: str) -> None:
        async with lanes.lane(host):
            inside.append(host)
            await release.wait()

    stuck = [asyncio.create_task(use("slow")) for _ in range(20)]
    others = [asyncio.create_task(use(f"h{number}")) for number in range(6)]
    async with asyncio.timeout(5):
        while len(inside) < 8:  # noqa: ASYNC110 - the tasks themselves are what is looked at
            await asyncio.sleep(0)
    assert inside.count("slow") == 2
    release.set()
    await asyncio.gather(*stuck, *others)
    assert len(inside) == 26
    assert lanes._hosts == {}


async def test_at_the_end_posts_under_way_may_end_and_none_begins() -> None:
    one = poster()
    async with Hook() as hook:
        hook.open.clear()
        under_way = asyncio.create_task(one.post(hook.url, "msg_1", b"{}", {}))
        await hook.until(1)
        winding = asyncio.create_task(one.wind_down(5))
        await asyncio.sleep(0)
        late = asyncio.create_task(one.post(hook.url, "msg_2", b"{}", {}))
        hook.open.set()
        assert (await under_way).verdict == "delivered"
        await winding
        late.cancel()
        await asyncio.wait({late})
        assert len(hook.told) == 1


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://h.example/secret?key=1", "h.example"), ("http://[::1]:80/x", "::1"), ("http://[x", "?"), ("x", "?")],
)
def test_logs_are_given_the_host_alone(url: str, host: str) -> None:
    assert host_of(url) == host
