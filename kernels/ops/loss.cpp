// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/loss.h"

#include "base/error.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops {

void check_loss(const CrossEntropyDesc& desc) {
  check_shape({desc.batch, desc.classes, desc.positions}, "softmax_cross_entropy");
  if (!(desc.label_smoothing >= 0 && desc.label_smoothing <= 1)) {
    throw ConfigError(fmt::format("{}: a label smoothing of {}; expected 0 to 1", describe(desc),
                                  desc.label_smoothing));
  }
}

std::string describe(const CrossEntropyDesc& desc) {
  Shape shape = {desc.batch, desc.classes};
  if (desc.positions != 1) shape.push_back(desc.positions);
  return fmt::format("softmax_cross_entropy on {}", to_string(shape));
}

}  // namespace ddpbench::ops
