// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Assembles a batch on the device from a data set in the device's memory: picks the samples,
// normalises them, widens the labels. It reads 1 byte and writes 4 bytes an element.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace ddpbench::ops {

// All pointers are to device memory.
struct GatherArgs {
  const std::uint8_t* images = nullptr;  // [count, sample_elements]; a sample is [channels, pixels]
  const std::uint16_t* labels = nullptr;  // [count, labels_per_sample]
  const std::int32_t* indices = nullptr;  // of samples; batch of them are used
  // Where in `indices` the batch begins. It is read when the work runs, so that a recorded step can
  // move on through an epoch. Null: at the first.
  const std::uint64_t* position = nullptr;
  std::int64_t batch = 0;
  std::int64_t sample_elements = 0;
  std::int64_t labels_per_sample = 1;
  std::int64_t channels = 1;           // divides sample_elements
  std::span<const double> mean, std;   // one a channel, of bytes / 255; read before run() returns
  float* out = nullptr;                // [batch, sample_elements]
  std::int32_t* labels_out = nullptr;  // [batch, labels_per_sample]
};

// (byte / 255 - mean) / std = byte * factor + offset, rounded as the loader rounds: a batch has the
// same bits on host and device.
struct ByteScale {
  float factor = 1, offset = 0;
};
inline ByteScale byte_scale(double mean, double std) {
  return {static_cast<float>(1 / (255 * std)), static_cast<float>(-mean / std)};
}

class BatchGather {
 public:
  virtual ~BatchGather() = default;
  // Throws ConfigError unless shape and normalisation are valid. Indices are not checked.
  virtual void run(Stream& stream, const GatherArgs& args) = 0;
};

// The check that all backends make.
void check_gather(const GatherArgs& args);

}  // namespace ddpbench::ops
