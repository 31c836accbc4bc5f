// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of the loss know of it.
#pragma once

#include <cstdint>

#include "kernels/ops/flat_ops.h"

namespace ddpbench::ops::cuda {

// As CrossEntropyDesc says.
struct LossShape {
  std::uint32_t batch = 0, classes = 0, positions = 1;
  std::int32_t ignore_index = kIgnoresNothing;
  // `class_share` is what every class has of the target, `label_share` what the label has beyond.
  float label_share = 1, class_share = 0;
  float weight = 1;
  bool counts_hits = true;
};

}  // namespace ddpbench::ops::cuda
