// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The algorithm of each pass of a convolution: one of cuDNN's, or an own kernel.
#pragma once

#include "kernels/ops/cuda/library/convolution.h"

namespace ddpbench::ops::cuda {

// The choice for one pass (autotuner.h). Without a trial it is an own kernel if there is one, else
// the library's guess. The arithmetic stays set in the descriptor of the pass. Throws DeviceError
// when no algorithm keeps to the options.
AlgorithmChoice tune_convolution(Context& context, const ConvolutionShape& shape,
                                 ConvolutionPass pass);

}  // namespace ddpbench::ops::cuda
