// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Random valid cases of the verification study: a small network, a data set, settings, and perhaps
// a planted fault. The same seed gives the same case everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "datasets/dataset.h"

namespace ddpbench::bench {

struct StudyCase {
  std::uint64_t seed = 0;
  std::string model;  // the text of a model file
  Options options;    // of one run
  data::DatasetInfo dataset;
  std::vector<std::byte> decoded;

  std::string describe() const;  // settings, for a person who looks into it
};

// A run of dp, ddp or ps on 1 to 4 devices.
StudyCase draw_case(std::uint64_t seed);
// The same on at least 2 devices, with a fault: a sum for an average, a bucket or shard that is not
// reduced, or a device that misses an update.
StudyCase draw_faulty_case(std::uint64_t seed);

}  // namespace ddpbench::bench
