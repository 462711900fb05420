"""Minutes of kill -9 under load. `make soak`; HOLDFAST_SOAK_S says how long, HOLDFAST_SOAK_SEED repeats one."""

from __future__ import annotations

import os
import secrets

import pytest

from soak.storm import Storm


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_long_storm_loses_nothing_and_commits_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = float(os.environ.get("HOLDFAST_SOAK_S", "600"))
    seed = int(os.environ.get("HOLDFAST_SOAK_SEED", "0")) or secrets.randbits(32)
    with capsys.disabled():
        print(f"\nseed {seed}, {seconds:g} s")
        print(Storm(seconds, seed).run())


def test_a_short_storm_loses_nothing_and_commits_nothing_twice() -> None:
    print(Storm(seconds=12, seed=int(os.environ.get("HOLDFAST_SOAK_SEED", "0")) or secrets.randbits(32)).run())
