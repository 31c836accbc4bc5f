// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How the operations' kernels are launched.
#pragma once

#include "kernels/runtime/cuda/launch.cuh"

namespace ddpbench::ops::cuda {

using ddpbench::cuda::for_each;
using ddpbench::cuda::for_each_block;
using ddpbench::cuda::kElementThreads;
using ddpbench::cuda::kMaxElementBlocks;

}  // namespace ddpbench::ops::cuda
