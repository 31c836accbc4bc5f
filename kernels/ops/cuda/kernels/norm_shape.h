// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What batch norm's kernels and their callers say of maps and channels.
#pragma once

#include <cstdint>

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// Maps of one part of a batch. REQUIRES: fewer than 2^31 elements.
struct NormShape {
  DataType type = DataType::fp32;
  std::uint32_t samples = 0, channels = 0, pixels = 0;
  bool channels_last = false;
  double eps = 0;
};

// How each channel is normalised. weight and bias are null where they are no parameters (1 and 0).
struct Affine {
  const float* mean = nullptr;
  const float* inv_std = nullptr;  // null: from `variance`
  const float* variance = nullptr;
  const float *weight = nullptr, *bias = nullptr;
  float eps = 0;  // with `variance`
};

}  // namespace ddpbench::ops::cuda
