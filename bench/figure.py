"""What a measurement is. Its one rule: a figure stands beside its limit, and both come from the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    value: float
    unit: str
    #: What it is measured against, and how it does against that.
    limit: str = ""
    ratio: float | None = None
    #: What must hold, in words; '' for what is shown for comparison only.
    must: str = ""
    holds: bool | None = None

    def row(self) -> tuple[str, ...]:
        """The figure as the columns of a table."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        verdict = {None: "", True: "holds", False: "MISSED"}[self.holds]
        return self.name, f"{self.value:,.4g}" if self.value < 1000 else f"{self.value:,.0f}", self.unit, self.limit, \
            ratio, self.must, verdict  # fmt: skip


def at_least(name: str, values: Sequence[float], limits: Sequence[float], unit: str, limit: str, must: float) -> Figure:
    """A figure that must reach a part of its limit: the median of the rounds' ratios decides."""
    ratio = median(value / other for value, other in zip(values, limits, strict=True))
    return Figure(name, median(values), unit, limit, ratio, f"≥ {must:g}", ratio >= must)


def no_slower(name: str, times: Sequence[float], limits: Sequence[float], unit: str, limit: str, must: float) -> Figure:
    """A time that must stay below a multiple of its limit."""
    ratio = median(value / other for value, other in zip(times, limits, strict=True))
    return Figure(name, median(times), unit, limit, ratio, f"≤ {must:g}", ratio <= must)


def at_most(name: str, value: float, unit: str, must: float) -> Figure:
    """A figure that must stay below a number."""
    return Figure(name, value, unit, must=f"≤ {must:g} {unit}", holds=value <= must)


def shown(name: str, values: Sequence[float], unit: str, limit: str = "", limits: Sequence[float] = ()) -> Figure:
    """A figure for comparison only."""
    ratio = median(value / other for value, other in zip(values, limits, strict=True)) if limits else None
    return Figure(name, median(values), unit, limit, ratio)


def in_turns(rounds: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Each measure once a round, so that a slow minute of the machine slows all of them; one round goes before."""
    for measure in measures:
        measure()
    return [list(column) for column in zip(*([measure() for measure in measures] for _ in range(rounds)), strict=True)]


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which this part of the values lies."""
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]
