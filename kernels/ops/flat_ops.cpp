// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/flat_ops.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/ops/op.h"

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

void check_gather(const GatherArgs& args) {
  if (args.batch < 0 || args.sample_elements < 1 || args.channels < 1 ||
      args.labels_per_sample < 1 || args.sample_elements % args.channels != 0) {
    throw ConfigError(
        fmt::format("batch_gather: {} samples of {} elements in {} channels and {} labels",
                    args.batch, args.sample_elements, args.channels, args.labels_per_sample));
  }
  const auto channels = static_cast<std::size_t>(args.channels);
  if (args.mean.size() != channels || args.std.size() != channels) {
    throw ConfigError(
        fmt::format("batch_gather: {} means and {} standard deviations for {} channels",
                    args.mean.size(), args.std.size(), args.channels));
  }
  for (const double std : args.std) {
    if (!(std > 0)) {
      throw ConfigError(
          fmt::format("batch_gather: a standard deviation of {}; expected more than 0", std));
    }
  }
}

}  // namespace ddpbench::ops
