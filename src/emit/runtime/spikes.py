"""
Runs that skip spikes: the gradient norm from which on a step is one, by the norms of the steps taken before it. Every rank finds it
by itself and must find the same bits, on whatever machine it is: logarithms and powers are made of sums, products and quotients,
which are the same everywhere. src/health/norm-limit.ts does the same, in the same order.
"""
import math
import struct
from typing import Dict, List

# Norms that a step is judged by at most, and at least; spikes in a row that still are some; deviations from which on a step is one.
MOST_ACCEPTED, LEAST_ACCEPTED, MOST_IN_A_ROW, MOST_DEVIATIONS = 64, 32, 3, 8
# What logarithms of norms vary by at least.
LEAST_DEVIATION = 0.05
LOG2 = 0.6931471805599453
TERMS = 24


class Norms:
    """What is remembered of the norms of steps: checkpoints carry it."""

    def __init__(self):
        # Squares of the norms of steps that were taken, the latest last; and how many spikes followed.
        self.accepted: List[float] = []
        self.spikes = 0

    def position(self) -> Dict:
        return {"accepted": list(self.accepted), "spikes": self.spikes}

    def load(self, saved: Dict) -> None:
        self.accepted, self.spikes = [float(norm) for norm in saved["accepted"]], int(saved["spikes"])

    def limit(self) -> float:
        """Of the next norm's square, in f32; infinite where too few norms are known."""
        if len(self.accepted) < LEAST_ACCEPTED:
            return math.inf
        expected, deviation = expected_after([0.5 * logarithm(square) for square in self.accepted])
        limit = power(2 * (expected + MOST_DEVIATIONS * max(deviation, LEAST_DEVIATION)))
        # What f32 cannot hold is below no limit.
        return struct.unpack("f", struct.pack("f", limit))[0] if limit < 3.4e38 else math.inf

    def passed(self, norm_squared: float, limit: float, taken: bool) -> bool:
        """Remembers a step with such a limit; whether it was a spike."""
        if not math.isfinite(norm_squared) or norm_squared == 0:
            return False
        if norm_squared >= limit:
            self.spikes += 1
            if self.spikes >= MOST_IN_A_ROW:
                # What stays is no spike but another level, by which the next steps are judged.
                self.accepted, self.spikes = [], 0
            return True
        if taken:
            self.accepted, self.spikes = [*self.accepted, norm_squared][-MOST_ACCEPTED:], 0
        return False


def median(values: List[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 == 1 else (ordered[middle - 1] + ordered[middle]) / 2


def expected_after(values: List[float]):
    """What the line through the middles of both halves leads to expect next, and how far values are off it."""
    half = len(values) // 2
    early, late = median(values[:half]), median(values[len(values) - half :])
    slope = (late - early) / (len(values) - half)
    middle = len(values) - 1 - (half - 1) / 2

    def at(i: int) -> float:
        return late + slope * (i - middle)

    return at(len(values)), 1.4826 * median([abs(value - at(i)) for i, value in enumerate(values)])


def logarithm(x: float) -> float:
    m, twos = x, 0
    while m >= 1.5:
        m, twos = m * 0.5, twos + 1
    while m < 0.75:
        m, twos = m * 2, twos - 1
    t = (m - 1) / (m + 1)
    total = 0.0
    for n in range(2 * TERMS - 1, 0, -2):
        total = total * (t * t) + 1 / n
    return twos * LOG2 + 2 * t * total


def power(x: float) -> float:
    twos = math.floor(x / LOG2 + 0.5)
    rest = x - twos * LOG2
    total = 1.0
    for n in range(TERMS, 0, -1):
        total = 1 + (total * rest) / n
    for _ in range(min(twos, 1100)):
        total *= 2
    for _ in range(min(-twos, 1100)):
        total *= 0.5
    return total
