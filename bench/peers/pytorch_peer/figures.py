# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Statistics as ddpbench takes them (docs/metrics.md)."""
import math

CONFIDENCE = 0.95


def quantile(values, q):
    """Interpolates linearly between closest ranks."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values):
    return quantile(values, 0.5)


def summary(values):
    spread = ({"iqr": quantile(values, 0.75) - quantile(values, 0.25)} if len(values) > 1 else
              {"iqr": None, "iqr_reason": "one value has no spread"})
    return {"median": median(values), **spread, "p5": quantile(values, 0.05),
            "p95": quantile(values, 0.95), "p99": quantile(values, 0.99), "min": min(values),
            "max": max(values)}


def reaches(accuracy, target):
    """As reaches_accuracy of reports/metrics: rounding does not count."""
    return accuracy >= target * (1 - 1e-9)


def median_interval(values):
    """95 % interval of the median between order statistics; None with fewer than six values."""
    count, below, rank = len(values), 0.0, 0
    while True:
        below += math.comb(count, rank) / 2**count
        if 2 * below > 1 - CONFIDENCE:
            break
        rank += 1
    if rank == 0:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]
