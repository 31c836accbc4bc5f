// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's algorithms for the passes of a convolution, as candidates. The library times them itself
// (cudnnFind...Ex). That takes tens of milliseconds a pass and shape, once on each machine.
#pragma once

#include <optional>

#include "base/math.h"
#include "kernels/ops/cuda/library/convolution.h"

namespace ddpbench::ops::cuda {

// Enough for every algorithm of SimpleCNN and ResNet at the batches of one GPU. It counts in the
// workspace that all operations share.
inline constexpr std::size_t kWorkspaceLimit = 256 * kMiB;

// The fastest algorithm that keeps to the options, measured on memory and data of its own; nullopt:
// none. If deterministic, the first in a fixed order of those that ran. Throws NoPlanningMemory.
std::optional<AlgorithmChoice> fastest_of_library(const Context& context,
                                                  const ConvolutionShape& shape,
                                                  ConvolutionPass pass);

// The same without memory: the algorithm that the library guesses to be the fastest, unmeasured.
std::optional<AlgorithmChoice> guess_of_library(const Context& context,
                                                const ConvolutionShape& shape,
                                                ConvolutionPass pass);

// Whether the library (still) runs the choice within the options. Sets the choice's workspace, and
// the arithmetic in the pass's descriptor.
bool library_has(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass,
                 AlgorithmChoice& choice);

}  // namespace ddpbench::ops::cuda
