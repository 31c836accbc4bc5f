// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm runs each pass of a convolution: one of cuDNN's, or an own kernel.
#pragma once

#include "kernels/ops/cuda/library/convolution.h"

namespace ddpbench::ops::cuda {

// The choice for one pass (autotuner.h). Where there can be no trial, it is an own kernel if there
// is one, else what the library guesses. Leaves the arithmetic set in the descriptor of the pass.
// Throws DeviceError when there is no algorithm that keeps to the options.
AlgorithmChoice tune_convolution(Context& context, const ConvolutionShape& shape,
                                 ConvolutionPass pass);

}  // namespace ddpbench::ops::cuda
