// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GradientBucketer: groups consecutive gradients into buckets. It starts each bucket's reduction as
// soon as its last gradient is ready, in index order, on every rank alike.
//
// Buckets follow PyTorch's DDP (Li et al., VLDB 2020): parameters come in reverse order, and a
// bucket closes when it holds at least its cap. That of the first is small, so that communication
// starts early. Buckets are ranges of the flat gradient buffer, so gradients are not copied.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/nn/graph.h"

namespace ddpbench {

// A contiguous range of the flat buffer (alignment gaps included). It is complete when all
// parameters before end_parameter are ready.
struct Bucket {
  std::size_t end_parameter = 0;
  std::size_t offset_bytes = 0;
  std::size_t bytes = 0;
};

std::vector<Bucket> plan_buckets(const nn::ParameterPlan& plan, std::size_t first_cap_bytes,
                                 std::size_t cap_bytes);

class GradientBucketer {
 public:
  // `start(bucket)` is called in index order, once per bucket and pass.
  GradientBucketer(std::vector<Bucket> buckets, std::function<void(std::size_t)> start);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  // To be called before every backward pass. Starts the buckets in front of which there is no
  // parameter: those of servers in a network that has none.
  void begin_pass();
  // A parameter's gradient is ready: starts the buckets that are now complete. Throws InternalError
  // when it was ready already.
  void ready(std::size_t parameter);

 private:
  void start_ready();

  std::vector<Bucket> buckets_;
  std::vector<bool> is_ready_;    // [parameter]
  std::size_t ready_prefix_ = 0;  // all parameters before it are ready
  std::size_t next_ = 0;          // bucket to start next
  std::function<void(std::size_t)> start_;
};

}  // namespace ddpbench
