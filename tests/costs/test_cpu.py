"""CPU of a plain turn, as a multiple of the bare limit's in the same minute: a warning when it has grown, no failure.

A ratio moves far less between machines than microseconds do, and still too much to fail a build by.
"""

from __future__ import annotations

import os
import statistics
import sys
import warnings

import pytest

from bench import measure
from bench.competitors import bare
from bench.subjects import nonstick
from tests.costs.recorded import RECORD_VARIABLE, CostNews, read_ratio, record_ratio

# Between two runs of the same code on a busy machine it moved by a tenth.
GROWTH = 1.25


@pytest.mark.skipif(sys.platform != "linux", reason="the CPU time of other processes is read as Linux shows it")
@pytest.mark.filterwarnings("default::tests.costs.recorded.CostNews")
def test_a_turn_of_ours_beside_a_bare_one() -> None:
    with nonstick() as ours, bare() as limit:
        ratios = []
        for _ in range(3):
            mine = measure.turns(ours, seconds=0.7)["server_us"]
            ratios.append(mine / measure.turns(limit, seconds=0.7)["server_us"])
    ratio = statistics.median(ratios)
    assert ratio > 1, "a turn can't cost less than the limit: the measurement is broken"
    if os.environ.get(RECORD_VARIABLE):
        record_ratio(ratio)
    elif ratio > GROWTH * read_ratio():
        was = read_ratio()
        warnings.warn(
            f"a plain turn takes {ratio:.1f} times the bare limit's CPU, it was {was:.1f}", CostNews, stacklevel=1
        )
