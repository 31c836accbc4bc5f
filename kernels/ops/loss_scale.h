// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Dynamic loss scaling (Micikevicius et al., "Mixed Precision Training", ICLR 2018): the gradients
// of a step are those of `scale` times the loss, so that small ones are not lost in fp16. A step
// with a gradient that is no finite number updates nothing, and halves the scale; it doubles after
// kGrowthInterval steps without one. The constants are those of torch.amp.GradScaler.
#pragma once

#include <cstdint>

#include "base/math.h"

namespace ddpbench::ops {

inline constexpr float kFirstLossScale = 65536, kScaleGrowth = 2, kScaleBackoff = 0.5;
inline constexpr std::int32_t kGrowthInterval = 2000;

// It lies in device memory, where recorded work reads it anew.
struct LossScale {
  float scale = kFirstLossScale;  // of the step that runs
  float overflow = 0;             // 1: one of its gradients is not finite
  std::int32_t good_steps = 0;    // since the scale has changed
  // What the step before had, and whether it was skipped.
  float last_scale = kFirstLossScale;
  std::int64_t skipped = 0;  // updates
  bool last_skipped = false;
};

// Ends a step. No factor is no power of two, so scaling rounds nothing. The scale is never below
// 1, where it would save no gradient any more.
DDPBENCH_HOST_DEVICE inline void end_scaled_step(LossScale& s) {
  s.last_scale = s.scale;
  s.last_skipped = s.overflow != 0;
  if (s.last_skipped) {
    ++s.skipped;
    if (s.scale > 1) s.scale *= kScaleBackoff;
  } else if (s.good_steps + 1 == kGrowthInterval) {
    s.scale *= kScaleGrowth;
  }
  s.good_steps = s.last_skipped || s.good_steps + 1 == kGrowthInterval ? 0 : s.good_steps + 1;
  s.overflow = 0;
}

DDPBENCH_HOST_DEVICE inline bool is_finite_number(float value) { return value - value == 0; }

}  // namespace ddpbench::ops
