"""Envelopes that a program in another language wrote: read if they can be, set aside with the reason if not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast, JobDead
from holdfast.engine.model import Entry
from holdfast.ids import new_id
from holdfast.work import Outcome
from tasks.hand import Hand


@pytest.fixture
def shop(app: Holdfast) -> Holdfast:
    @app.task(name="shop.send")
    def send(to: str, copies: int = 1, *rest: int, at: datetime | None = None, **more: Any) -> list[Any]:
        return [to, copies, *rest, at, more]

    @app.task(name="shop.ping")
    def ping(a: Any = 1) -> int:
        return 1

    @app.task(name="shop.picky")
    def picky(value: Picky) -> int:
        return 1

    return app


class Picky:
    @classmethod
    def model_validate(cls, value: Any) -> Picky:
        raise SystemExit(value) if value == 2 else ZeroDivisionError(value)


@pytest.fixture
def hand(shop: Holdfast) -> Hand:
    return Hand(shop)


def push(hand: Hand, *envelopes: bytes) -> None:
    """As any program does that knows LPUSH."""
    with hand.client._the_pool().link() as link:
        for envelope in envelopes:
            link.command("LPUSH", hand.store.partition.key("inbox"), envelope)


def put(hand: Hand, envelope: bytes) -> str:
    """As one does that knows the scripts as well; answers the id."""
    id = new_id()
    hand.client.put(hand.store, [Entry(id, envelope)])
    return id


@pytest.mark.parametrize(
    ("envelope", "args", "kwargs"),
    [
        ('{"task":"shop.send","args":["a"]}', ("a",), {}),
        ('{"task":"shop.send","args":["a",2,3,4]}', ("a", 2, 3, 4), {}),
        ('{"task":"shop.send","kwargs":{"to":"a"}}', (), {"to": "a"}),
        (' {"kwargs" : {"to":"a", "copies": 2} , "args": [], "task":"shop.send"} ', (), {"to": "a", "copies": 2}),
        ('{"task":"shop.send","args":["a"],"kwargs":{"copies":2,"x":null}}', ("a",), {"copies": 2, "x": None}),
        (
            '{"task":"shop.send","args":["a"],"kwargs":{"at":"2026-01-01T00:00:00+01:00"}}',
            ("a",),
            {"at": datetime(2025, 12, 31, 23, tzinfo=UTC)},
        ),
        ('{"task":"shop.ping"}', (), {}),
        ('{"task":"shop.ping","args":[],"kwargs":{}}', (), {}),
        ('{"task":"shop.ping","kwargs":{"a":"\\u00e9\\ud83d\\ude00"}}', (), {"a": "\u00e9\U0001f600"}),
        ('{"task":"shop.ping","args":[],"retries":0,"timeout":1,"hard_timeout":2.5,"result_ttl":0}', (), {}),
        ('{"task":"shop.ping","retries":null,"timeout":null}', (), {}),
    ],
)
def test_what_can_be_read_is_run(hand: Hand, envelope: str, args: Any, kwargs: Any) -> None:
    push(hand, envelope.encode())
    [run] = hand.take()
    assert (tuple(run.args), run.kwargs) == (args, kwargs)


def test_what_comes_by_the_inbox_is_run_in_its_order_and_leaves_nothing(hand: Hand, shop: Holdfast) -> None:
    push(hand, *[json.dumps({"task": "shop.ping", "args": [i]}).encode() for i in range(5)])
    runs = hand.take()
    assert [run.args[0] for run in runs] == [0, 1, 2, 3, 4]
    hand.commit([(run, run.ended(1)) for run in runs])
    assert shop.job(runs[0].id).result(timeout=0) == 1


UNREADABLE = [
    (b"", "not an envelope: "),
    (b"\xff\xfe", "not an envelope: "),
    (b"not json", "not an envelope: JSON is malformed"),
    (b'{"task":"shop.ping"', "not an envelope: Input data was truncated"),
    (b"[]", "not an envelope: Expected `object`, got `array`"),
    (b"null", "not an envelope: Expected `object`"),
    (b"{}", "not an envelope: Object missing required field `task`"),
    (b'{"task":5}', "not an envelope: Expected `str`, got `int` - at `$.task`"),
    (b'{"task":"shop.ping","retires":3}', "not an envelope: Object contains unknown field `retires`"),
    (b'{"task":"shop.ping","retries":"3"}', "not an envelope: Expected `int | null`, got `str` - at `$.retries`"),
    (b'{"task":"shop.ping","retries":-1}', "not an envelope: Expected `int` >= 0 - at `$.retries`"),
    (b'{"task":"shop.ping","timeout":-1}', "not an envelope: Expected `float` >= 0.0 - at `$.timeout`"),
    (b'{"task":"shop.ping","timeout":1e300}', "not an envelope: Expected `float` <= "),
    (b'{"task":"shop.ping","result_ttl":1e300}', "not an envelope: Expected `float` <= "),
    (b'{"task":"shop.ping","hard_timeout":1e999}', "not an envelope: "),
    (b'{"task":"shop.pong"}', "unknown task 'shop.pong' (did you mean 'shop.ping'?)"),
    (b'{"task":""}', "unknown task ''"),
    (b'{"task":"os.system","args":["x"]}', "unknown task 'os.system'"),
    (b'{"task":"%b"}' % (b"x" * 100_000), "unknown task 'xxx"),
    (b'{"task":"shop.send"}', "send(): missing a required argument: 'to'; it is send(to: "),
    (b'{"task":"shop.send","args":"a"}', "send(): Expected `array`, got `str`"),
    (b'{"task":"shop.send","args":{"to":"a"}}', "send(): Expected `array`, got `object`"),
    (b'{"task":"shop.send","args":[1]}', "send(): to: Expected `str`, got `int`"),
    (b'{"task":"shop.send","args":["a",1,"2"]}', "send(): rest[0]: Expected `int`, got `str`"),
    (b'{"task":"shop.send","args":["a"],"kwargs":[1]}', "send(): Expected `object`, got `array`"),
    (b'{"task":"shop.send","args":["a"],"kwargs":{"copies":"2"}}', "send(): copies: Expected `int`, got `str`"),
    (b'{"task":"shop.send","args":["a"],"kwargs":{"to":"b"}}', "send(): multiple values for argument 'to'"),
    (b'{"task":"shop.ping","args":[1,2]}', "ping(): "),
    (b'{"task":"shop.ping","args":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not an envelope: "),
    (b'{"task":"shop.picky","args":[1]}', "ZeroDivisionError: 1"),
    (b'{"task":"shop.picky","args":[2]}', "SystemExit: 2"),
]


@pytest.mark.parametrize(("envelope", "reason"), UNREADABLE, ids=[str(i) for i in range(len(UNREADABLE))])
def test_what_cannot_be_read_is_set_aside_with_the_reason(
    hand: Hand, shop: Holdfast, envelope: bytes, reason: str
) -> None:
    id = put(hand, envelope)
    good = put(hand, b'{"task":"shop.ping"}')
    assert [outcome.verdict for outcome in hand.work()] == ["broken", "done"]
    look = hand.client.run(hand.store.look(id))
    assert look.place == "broken"
    assert look.error.startswith(reason)
    assert len(look.error) <= 8192
    assert look.envelope == envelope
    job = shop.job(id)
    assert (job.status(), shop.job(good).status()) == ("dead", "done")
    with pytest.raises(JobDead, match="is dead: "):
        job.result()


def test_one_that_was_set_aside_runs_when_its_task_is_there_again(hand: Hand, shop: Holdfast) -> None:
    id = put(hand, b'{"task":"shop.new"}')
    hand.work()
    job = shop.job(id)
    assert job.status() == "dead"

    @shop.task(name="shop.new")
    def new() -> int:
        return 7

    assert job.revive()
    Hand(shop).work()
    assert job.result(timeout=0) == 7


def random_json(seed: int) -> Iterator[bytes]:
    """Envelopes with one thing wrong, or nothing."""
    good = b'{"task":"shop.send","args":["a",1],"kwargs":{"x":[1,{"y":null}]},"retries":3}'
    for i in range(len(good)):
        yield good[:i] + good[i + 1 :]
        yield good[:i] + bytes([(good[i] + seed) % 256]) + good[i + 1 :]


@pytest.mark.parametrize("seed", [1, 32, 128])
def test_no_change_of_one_byte_upsets_more_than_its_own_entry(hand: Hand, seed: int) -> None:
    for i, envelope in enumerate(random_json(seed)):
        opened = hand.source.open(hand.store.partition, b"%d" % i, b"1", envelope, None, 0)
        assert not isinstance(opened, Outcome) or opened.verdict == "broken", envelope
