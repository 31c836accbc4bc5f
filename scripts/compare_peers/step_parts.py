# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""What of a traced step its convolutions take, and what everything else."""
import re
import statistics

# A call of a layer that ResNets name as a convolution, perhaps with what is fused behind it ("conv1+relu1
# forward"). Reorders ("conv1 reordered"), sums of gradients and what is recomputed are calls of others.
CONVOLUTION = re.compile(r"(\S*\.)?(conv\d*|downsample\.0)(\+\S*)? (forward|backward)(, micro-batch .*)?")


def is_convolution(call):
    return CONVOLUTION.fullmatch(call) is not None


def events(trace, category):
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


def rest_and_convolutions(trace):
    """Seconds of a step without its convolutions, and of these: medians over the traced steps of the one
    rank of the trace."""
    convolutions = [call for call in events(trace, "layer") if is_convolution(call["name"])]
    parts = []
    for step in events(trace, "step"):
        end = step["ts"] + step["dur"]
        inside = sum(call["dur"] for call in convolutions if step["ts"] <= call["ts"] < end)
        parts.append(((step["dur"] - inside) * 1e-6, inside * 1e-6))
    if not any(inside for _, inside in parts):
        raise RuntimeError("the trace has no convolution in a step")
    return tuple(statistics.median(column) for column in zip(*parts))
