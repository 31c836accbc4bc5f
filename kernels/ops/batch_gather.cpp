// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/batch_gather.h"

#include "base/error.h"

namespace ddpbench::ops {

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
