// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/reference_weights.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/hash.h"

namespace ddpbench::bench {
namespace {

struct Header {
  std::int64_t parameter_count;
  std::atomic<std::uint32_t> complete;
};
constexpr std::size_t kHeaderBytes = 64;

Header& header(const SharedMemory& memory) {
  return *reinterpret_cast<Header*>(memory.view().data);
}

// `which`: 0 is before, 1 is after.
std::span<float> values(const SharedMemory& memory, int which) {
  const auto count = static_cast<std::size_t>(header(memory).parameter_count);
  return memory.view()
      .slice(kHeaderBytes + static_cast<std::size_t>(which) * count * sizeof(float),
             count * sizeof(float))
      .as<float>();
}

void flatten(const std::vector<nn::NamedTensor>& tensors, std::span<float> out) {
  std::size_t at = 0;
  for (const auto& tensor : tensors) {
    ensure(at + tensor.values.size() <= out.size(), "more weights than the reference has room for");
    std::copy(tensor.values.begin(), tensor.values.end(), out.begin() + static_cast<long>(at));
    at += tensor.values.size();
  }
  ensure(at == out.size(), "{} weights where the reference has {}", at, out.size());
}

// Computes |dw - dw_ref| / |dw_ref| of one tensor in double precision.
double relative_error(std::span<const float> before, std::span<const float> after,
                      std::span<const float> reference_before,
                      std::span<const float> reference_after) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double delta = static_cast<double>(after[i]) - before[i];
    const double expected = static_cast<double>(reference_after[i]) - reference_before[i];
    difference += (delta - expected) * (delta - expected);
    norm += expected * expected;
  }
  if (difference == 0) return 0;
  // This also catches NaN, which compares false.
  if (!(norm > 0) || !std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return std::sqrt(difference / norm);
}

}  // namespace

ReferenceWeights ReferenceWeights::create(std::int64_t parameter_count) {
  ReferenceWeights weights(SharedMemory::create(
      "ddpbench-reference",
      kHeaderBytes + 2 * static_cast<std::size_t>(parameter_count) * sizeof(float)));
  header(weights.memory_).parameter_count = parameter_count;
  return weights;
}

ReferenceWeights ReferenceWeights::adopt(int fd) {
  return ReferenceWeights(SharedMemory::adopt(fd));
}

ReferenceWeights ReferenceWeights::open(const std::string& handle) {
  return ReferenceWeights(SharedMemory::open(handle));
}

void ReferenceWeights::store(const std::vector<nn::NamedTensor>& before,
                             const std::vector<nn::NamedTensor>& after) {
  flatten(before, values(memory_, 0));
  flatten(after, values(memory_, 1));
  header(memory_).complete.store(1, std::memory_order_release);
}

bool ReferenceWeights::complete() const {
  return header(memory_).complete.load(std::memory_order_acquire) != 0;
}

VerificationResult ReferenceWeights::compare(const std::vector<nn::NamedTensor>& before,
                                             const std::vector<nn::NamedTensor>& after) const {
  ensure(complete(), "the reference has not finished");
  const auto reference_before = values(memory_, 0);
  const auto reference_after = values(memory_, 1);
  VerificationResult result;
  std::size_t at = 0;
  for (std::size_t t = 0; t < before.size(); ++t) {
    const std::size_t count = before[t].values.size();
    const auto expected_before = reference_before.subspan(at, count);
    if (!std::equal(expected_before.begin(), expected_before.end(), before[t].values.begin())) {
      throw VerificationError(fmt::format(
          "the starting weights of {} differ from the reference's; they come from the same seed or "
          "file and must be equal bit by bit",
          before[t].name));
    }
    const double error = relative_error(before[t].values, after[t].values, expected_before,
                                        reference_after.subspan(at, count));
    if (error > result.max_relative_error || result.worst_tensor.empty()) {
      result.max_relative_error = error;
      result.worst_tensor = before[t].name;
    }
    result.weights_hash =
        hash_bytes(after[t].values.data(), count * sizeof(float), result.weights_hash);
    at += count;
  }
  return result;
}

}  // namespace ddpbench::bench
