"""
Loss-spike skipping: a grad-norm limit for each step, from the norms of the applied steps before it. Every rank computes it, and all
must get the same bits on any hardware: logarithms and powers use only sums, multiplications and divisions, which IEEE
754 rounds correctly. src/health/norm-limit.ts computes the same in the same order.
"""
import math
import struct
from typing import Dict, List, Tuple

# Maximum and minimum of the norms in the history; consecutive spikes that are skipped at most; deviations that make a spike.
MAX_HISTORY, MIN_HISTORY, MAX_CONSECUTIVE, MAX_DEVIATIONS = 64, 32, 3, 8
# Minimum deviation of log norms.
MIN_DEVIATION = 0.05
LOG2 = 0.6931471805599453
TERMS = 24


class GradNormHistory:
    """The history of grad norms; checkpoints store it."""

    def __init__(self):
        # Squared norms of applied steps, the latest last; and the number of spikes since.
        self.accepted: List[float] = []
        self.spikes = 0

    def position(self) -> Dict:
        return {"accepted": list(self.accepted), "spikes": self.spikes}

    def load(self, saved: Dict) -> None:
        self.accepted, self.spikes = [float(norm) for norm in saved["accepted"]], int(saved["spikes"])

    def limit(self) -> float:
        """The limit of the next squared norm, in f32; infinite while the history is too short."""
        if len(self.accepted) < MIN_HISTORY:
            return math.inf
        expected, deviation = expected_after([0.5 * logarithm(square) for square in self.accepted])
        limit = power(2 * (expected + MAX_DEVIATIONS * max(deviation, MIN_DEVIATION)))
        # Above the range of f32 there is no limit.
        return struct.unpack("f", struct.pack("f", limit))[0] if limit < 3.4e38 else math.inf

    def record(self, norm_squared: float, limit: float, applied: bool) -> bool:
        """Records a step with this limit; returns whether it was a spike."""
        if not math.isfinite(norm_squared) or norm_squared == 0:
            return False
        if norm_squared >= limit:
            self.spikes += 1
            if self.spikes >= MAX_CONSECUTIVE:
                # A lasting change is a new level, not a spike: the history is reset.
                self.accepted, self.spikes = [], 0
            return True
        if applied:
            self.accepted, self.spikes = [*self.accepted, norm_squared][-MAX_HISTORY:], 0
        return False


def median(values: List[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 == 1 else (ordered[middle - 1] + ordered[middle]) / 2


def expected_after(values: List[float]) -> Tuple[float, float]:
    """Predicts the next value by a line through the medians of both halves of the history; and the deviation from that line."""
    half = len(values) // 2
    early, late = median(values[:half]), median(values[len(values) - half :])
    slope = (late - early) / (len(values) - half)
    middle = len(values) - 1 - (half - 1) / 2

    def at(i: int) -> float:
        return late + slope * (i - middle)

    return at(len(values)), 1.4826 * median([abs(value - at(i)) for i, value in enumerate(values)])


def logarithm(x: float) -> float:
    m, exponent = x, 0
    while m >= 1.5:
        m, exponent = m * 0.5, exponent + 1
    while m < 0.75:
        m, exponent = m * 2, exponent - 1
    t = (m - 1) / (m + 1)
    total = 0.0
    for n in range(2 * TERMS - 1, 0, -2):
        total = total * (t * t) + 1 / n
    return exponent * LOG2 + 2 * t * total


def power(x: float) -> float:
    exponent = math.floor(x / LOG2 + 0.5)
    remainder = x - exponent * LOG2
    total = 1.0
    for n in range(TERMS, 0, -1):
        total = 1 + (total * remainder) / n
    for _ in range(min(exponent, 1100)):
        total *= 2
    for _ in range(min(-exponent, 1100)):
        total *= 0.5
    return total
