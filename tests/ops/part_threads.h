// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of a divided batch as threads of the test.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"

namespace ddpbench::ops::testing {

// What each part gathers, through memory of the host.
class GatherThroughHost final : public BatchParts {
 public:
  struct Meeting {
    explicit Meeting(std::size_t parts)
        : barrier(static_cast<std::ptrdiff_t>(parts)), sent(parts) {}
    std::barrier<> barrier;
    std::vector<std::vector<std::byte>> sent;
  };

  GatherThroughHost(Meeting& meeting, std::size_t part, Device& device)
      : meeting_(meeting), part_(part), device_(device) {}

  std::size_t count() const override { return meeting_.sent.size(); }
  void gather(Stream& stream, const void* own, void* all, std::size_t bytes) override {
    std::vector<std::byte>& mine = meeting_.sent[part_];
    mine.resize(bytes);
    auto* const source = static_cast<std::byte*>(const_cast<void*>(own));
    device_.copy(stream, {mine.data(), bytes}, {source, bytes});
    stream.synchronize();
    meeting_.barrier.arrive_and_wait();
    for (std::size_t p = 0; p < count(); ++p) {
      device_.copy(stream, {static_cast<std::byte*>(all) + p * bytes, bytes},
                   {meeting_.sent[p].data(), bytes});
    }
    stream.synchronize();
    ++gathered;
    meeting_.barrier.arrive_and_wait();
  }

  int gathered = 0;

 private:
  Meeting& meeting_;
  std::size_t part_;
  Device& device_;
};

// Calls body(part) on a thread each.
inline void for_each_part(std::size_t parts, const std::function<void(std::size_t)>& body) {
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < parts; ++p) threads.emplace_back([&body, p] { body(p); });
  for (std::thread& thread : threads) thread.join();
}

// Part `part` of `parts` of the values of a batch.
inline std::vector<float> part_of(const std::vector<float>& values, std::size_t part,
                                  std::size_t parts) {
  const std::size_t count = values.size() / parts;
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(part * count);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace ddpbench::ops::testing
