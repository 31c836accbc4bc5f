// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RangeMarker: names what a thread is doing, for a profiler that looks on. The CUDA module has one
// for NVIDIA's (NVTX). Without a profiler a range costs a few nanoseconds.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ddpbench {

class RangeMarker {
 public:
  virtual ~RangeMarker() = default;
  // Whether a profiler looks on at all: where none does, there is no need to mark.
  virtual bool is_heard() const noexcept = 0;
  // A number for a name, for push(). Not while ranges are open.
  virtual std::size_t add_name(const std::string& name) = 0;
  // Ranges of one thread nest; each push needs its pop on the same thread. Any thread.
  virtual void push(std::size_t name) noexcept = 0;
  virtual void pop() noexcept = 0;
};

// Defined in the CUDA module.
std::unique_ptr<RangeMarker> make_nvtx_range_marker();

}  // namespace ddpbench
