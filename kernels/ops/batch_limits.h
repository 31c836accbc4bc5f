// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors of operations that can be planned, but not for this batch size. Code that chooses the
// batch size (`ddpbench fit`) can catch them and try another one.
#pragma once

#include "base/error.h"

namespace ddpbench::ops {

// Batch norm trains on at least 2 values a channel: maps of 1 x 1 need 2 samples.
class BatchTooSmall : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// A tensor would have 2^31 elements or more, which the kernels of the device do not count.
class BatchTooLarge : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

}  // namespace ddpbench::ops
