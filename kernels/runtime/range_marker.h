// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RangeMarker: tells an attached profiler what a thread is doing. The CUDA module has one for
// NVIDIA's profilers (NVTX). Without a profiler a range costs a few nanoseconds.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ddpbench {

class RangeMarker {
 public:
  virtual ~RangeMarker() = default;
  // Whether a profiler is attached: without one there is no need to mark.
  virtual bool is_heard() const noexcept = 0;
  // Returns the number of a name, for push(). REQUIRES: no range is open.
  virtual std::size_t add_name(const std::string& name) = 0;
  // Ranges of one thread nest; each push needs its pop on the same thread. Any thread.
  virtual void push(std::size_t name) noexcept = 0;
  virtual void pop() noexcept = 0;
};

// Defined in the CUDA module.
std::unique_ptr<RangeMarker> make_nvtx_range_marker();

}  // namespace ddpbench
