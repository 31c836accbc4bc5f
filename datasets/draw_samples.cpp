// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/draw_samples.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace ddpbench::data {
namespace {

// A thread takes some 50 us to start and to end, and a sample 2 us or more to draw.
constexpr std::size_t kLeastOfAThread = 256;
// More are of no use to 70,000 samples, and a container's share of time may be smaller than its
// number of cores.
constexpr std::size_t kMostThreads = 16;

// The cores that this thread may run on, at least 1.
std::size_t usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;  // more than a set can hold
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&cores)));
}

}  // namespace

void draw_samples(std::size_t count, const std::function<void(std::size_t)>& draw) {
  const std::size_t parts =
      std::clamp<std::size_t>(count / kLeastOfAThread, 1, std::min(usable_cores(), kMostThreads));
  std::vector<std::exception_ptr> errors(parts);
  const auto draw_part = [&](std::size_t part) {
    try {
      for (std::size_t i = count * part / parts; i < count * (part + 1) / parts; ++i) draw(i);
    } catch (...) {
      errors[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(parts);
    for (std::size_t part = 1; part < parts; ++part) {
      try {
        threads.emplace_back(draw_part, part);
      } catch (const std::system_error&) {
        draw_part(part);  // no further thread is allowed here
      }
    }
    draw_part(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace ddpbench::data
