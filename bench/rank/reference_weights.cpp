// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/reference_weights.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/math.h"
#include "base/random.h"
#include "bench/host/host_limits.h"
#include "bench/rank/update_sizes.h"
#include "kernels/nn/weights.h"
#include "reports/metrics/verification_bound.h"

namespace ddpbench::bench {

// The memory: the header; the sizes of the updates and their 2-norms, [step][2][tensor]; the sizes
// of what moved the state and its values, [0 ... steps][slice][tensor] and [...][value]; the
// weights [0 ... steps][value].
struct ReferenceWeights::Header {
  Extent extent;
  std::int64_t stored;  // steps
  std::array<char, 256> diverged;
  std::atomic<std::uint32_t> complete;
};

namespace {

constexpr std::size_t kHeaderBytes = 512;
// A bound of at least this share of the update is vague: what half of the devices lack of it may
// be within the bound.
constexpr double kVagueShare = 0.5;

// The distance from |value| to the next larger fp32 number. Devices may take numbers below the
// smallest normal one for zero, so it is never less than that.
double spacing_of(float value) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  const auto power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & kExponent);
  return std::max(static_cast<double>(power) * 0x1p-23,
                  static_cast<double>(std::numeric_limits<float>::min()));
}

struct Comparison {
  double difference = 0;  // 2-norm
  report::StoredSpacing spacing;
};

Comparison compare_tensor(std::span<const float> after, std::span<const float> expected) {
  Comparison result;
  double squared = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double difference = static_cast<double>(after[i]) - expected[i];
    squared += difference * difference;
    const double spacing = spacing_of(std::max(std::abs(after[i]), std::abs(expected[i])));
    result.spacing.squared_sum += spacing * spacing;
    result.spacing.largest = std::max(result.spacing.largest, spacing);
  }
  result.difference = std::sqrt(squared);
  return result;
}

double distance(std::span<const float> a, std::span<const float> b) {
  double squared = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    squared += difference * difference;
  }
  return std::sqrt(squared);
}

// What may differ of a tensor whose update has this size.
double allowed_difference(const Comparison& found, double size, double tolerance) {
  return size > 0 ? report::stored_difference_bound(tolerance * size, found.spacing) : 0;
}

// Keeps the worse of what `result` has and this comparison. Returns what may differ.
double enter(const Comparison& found, double size, double tolerance, const std::string& tensor,
             std::int64_t step, VerificationResult& result) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double error = found.difference == 0 ? 0 : kInfinite;
  double allowed = tolerance;
  const double difference = allowed_difference(found, size, tolerance);
  if (size > 0 && std::isfinite(found.difference)) {
    error = found.difference / size;
    allowed = difference / size;
  }
  // As products: a tolerance is never 0. Where nothing differs at all, the sharpest comparison
  // counts.
  const bool worse = error * result.tolerance > result.max_relative_error * allowed;
  const bool sharper = error == 0 && result.max_relative_error == 0 && allowed < result.tolerance;
  if (!worse && !sharper && !result.worst_tensor.empty()) return difference;
  result.max_relative_error = error;
  result.tolerance = allowed;
  result.worst_tensor = tensor;
  result.worst_step = step;
  return difference;
}

void copy_all(std::span<const double> from, std::span<double> to) {
  ensure(from.size() == to.size(), "{} values where the reference has {}", from.size(), to.size());
  std::ranges::copy(from, to.begin());
}

void flatten_into(const std::vector<nn::NamedTensor>& tensors, std::span<float> out) {
  std::size_t at = 0;
  for (const auto& tensor : tensors) {
    ensure(at + tensor.values.size() <= out.size(), "more weights than the reference has room for");
    std::ranges::copy(tensor.values, out.begin() + static_cast<std::ptrdiff_t>(at));
    at += tensor.values.size();
  }
  ensure(at == out.size(), "{} weights where the reference has {}", at, out.size());
}

std::size_t doubles(std::int64_t count) {
  return round_up(static_cast<std::size_t>(count) * sizeof(double), 64);
}

// Where the parts of the memory begin.
struct Parts {
  std::size_t sizes, state_sizes, state_values, weights;

  explicit Parts(const ReferenceWeights::Extent& extent)
      : sizes(kHeaderBytes),
        state_sizes(sizes + doubles(extent.steps * 2 * extent.tensors)),
        state_values(state_sizes +
                     doubles((extent.steps + 1) * extent.slices * extent.state_tensors)),
        weights(state_values + doubles((extent.steps + 1) * extent.slices * extent.state_values)) {}
};

}  // namespace

std::size_t ReferenceWeights::Extent::bytes() const {
  const auto values = static_cast<std::size_t>((steps + 1) * parameters);
  return Parts(*this).weights + values * sizeof(float);
}

ReferenceWeights::Extent ReferenceWeights::extent_of(const TrainingJob& job,
                                                     const nn::ModelSpec& model) {
  const Extent extent{.parameters = model.parameter_count(),
                      .tensors = model.tensor_count(),
                      .steps = job.options.verify_steps,
                      .slices = job.cell.world_size,
                      .state_values = model.state_count(),
                      .state_tensors = model.state_tensor_count()};
  // The reference's process keeps more beside them, for the sizes of updates.
  const std::uint64_t limit = memory_limit(read_host_limits()).bytes;
  const std::uint64_t beside = static_cast<std::uint64_t>(extent.parameters) *
                               UpdateSizes::bytes_per_parameter(optimizer_of(job));
  const std::uint64_t usable = limit - std::min(limit, beside);
  if (extent.bytes() <= usable) return extent;
  const auto step =
      static_cast<std::uint64_t>(extent.parameters) * sizeof(float) +
      static_cast<std::uint64_t>(extent.slices * extent.state_values) * sizeof(double);
  throw ConfigError(
      fmt::format("--verify-steps={}: the reference keeps the weights of each step, {} bytes in "
                  "all, of {} that can be used here for them; use at most --verify-steps={}",
                  extent.steps, extent.bytes(), usable, usable / step < 2 ? 0 : usable / step - 2));
}

ReferenceWeights::ReferenceWeights(SharedMemory memory) : memory_(std::move(memory)) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  if (memory_.view().bytes < kHeaderBytes || memory_.view().bytes != header().extent.bytes()) {
    throw CommError(
        fmt::format("{} bytes of memory are not a reference's weights", memory_.view().bytes));
  }
}

ReferenceWeights ReferenceWeights::create(const Extent& extent) {
  SharedMemory memory = SharedMemory::create("ddpbench-reference", extent.bytes());
  reinterpret_cast<Header*>(memory.view().data)->extent = extent;
  return ReferenceWeights(std::move(memory));
}

ReferenceWeights ReferenceWeights::adopt(int fd) {
  return ReferenceWeights(SharedMemory::adopt(fd));
}

ReferenceWeights ReferenceWeights::open(const std::string& handle) {
  return ReferenceWeights(SharedMemory::open(handle));
}

ReferenceWeights::Header& ReferenceWeights::header() const {
  return *reinterpret_cast<Header*>(memory_.view().data);
}

std::span<float> ReferenceWeights::values(std::int64_t step) const {
  const Extent& extent = header().extent;
  ensure(step >= 0 && step <= extent.steps, "step {} of a reference of {}", step, extent.steps);
  const auto count = static_cast<std::size_t>(extent.parameters) * sizeof(float);
  const std::size_t begin = Parts(extent).weights;
  return memory_.view().slice(begin + static_cast<std::size_t>(step) * count, count).as<float>();
}

std::span<double> ReferenceWeights::step_part(std::int64_t step, std::int64_t index) const {
  const Extent& extent = header().extent;
  ensure(step >= 1 && step <= extent.steps, "step {} of a reference of {}", step, extent.steps);
  const auto count = static_cast<std::size_t>(extent.tensors) * sizeof(double);
  return memory_.view()
      .slice(Parts(extent).sizes + static_cast<std::size_t>(2 * (step - 1) + index) * count, count)
      .as<double>();
}

std::span<double> ReferenceWeights::sizes(std::int64_t step) const { return step_part(step, 0); }

std::span<double> ReferenceWeights::update_norms(std::int64_t step) const {
  return step_part(step, 1);
}

std::span<double> ReferenceWeights::slice_part(std::size_t begin, std::int64_t each,
                                               std::int64_t step, std::int64_t slice) const {
  const Extent& extent = header().extent;
  ensure(step >= 0 && step <= extent.steps && slice >= 0 && slice < extent.slices,
         "slice {} of step {} of a reference of {} slices and {} steps", slice, step, extent.slices,
         extent.steps);
  const auto bytes = static_cast<std::size_t>(each) * sizeof(double);
  const auto index = static_cast<std::size_t>(step * extent.slices + slice);
  return memory_.view().slice(begin + index * bytes, bytes).as<double>();
}

std::span<double> ReferenceWeights::state_values(std::int64_t step, std::int64_t slice) const {
  const Extent& extent = header().extent;
  return slice_part(Parts(extent).state_values, extent.state_values, step, slice);
}

std::span<double> ReferenceWeights::state_sizes(std::int64_t step, std::int64_t slice) const {
  const Extent& extent = header().extent;
  return slice_part(Parts(extent).state_sizes, extent.state_tensors, step, slice);
}

void ReferenceWeights::store_start(const std::vector<nn::NamedTensor>& weights) {
  flatten_into(weights, values(0));
}

void ReferenceWeights::store_start_state(const std::vector<nn::NamedTensor>& state) {
  copy_all(nn::flat_state(state), state_values(0, 0));
}

void ReferenceWeights::store_slice_state(std::int64_t step, std::int64_t slice,
                                         const std::vector<nn::NamedTensor>& after,
                                         std::span<const double> sizes) {
  copy_all(nn::flat_state(after), state_values(step, slice));
  copy_all(sizes, state_sizes(step, slice));
}

void ReferenceWeights::store_step(const std::vector<nn::NamedTensor>& after,
                                  std::span<const double> update_sizes) {
  const std::int64_t step = header().stored + 1;
  flatten_into(after, values(step));
  ensure(update_sizes.size() == sizes(step).size(), "{} sizes of {} updates", update_sizes.size(),
         sizes(step).size());
  std::ranges::copy(update_sizes, sizes(step).begin());
  const std::span<double> norms = update_norms(step);
  std::size_t at = 0;
  for (std::size_t t = 0; t < after.size(); ++t) {
    norms[t] = distance(values(step - 1).subspan(at, after[t].values.size()), after[t].values);
    at += after[t].values.size();
  }
  header().stored = step;
}

void ReferenceWeights::finish(const std::string& diverged) {
  auto& text = header().diverged;
  diverged.copy(text.data(), text.size() - 1);  // the memory is zeroed
  header().complete.store(1, std::memory_order_release);
}

bool ReferenceWeights::complete() const {
  return header().complete.load(std::memory_order_acquire) != 0;
}

std::int64_t ReferenceWeights::steps() const {
  ensure(complete(), "the reference has not finished");
  return std::clamp<std::int64_t>(header().stored, 0, header().extent.steps);
}

std::string ReferenceWeights::diverged() const {
  ensure(complete(), "the reference has not finished");
  const auto& text = header().diverged;
  return {text.data(), ::strnlen(text.data(), text.size())};
}

std::span<const float> ReferenceWeights::weights(std::int64_t step) const {
  ensure(step <= steps(), "step {} of {} that the reference took", step, steps());
  return values(step);
}

std::string ReferenceWeights::first_difference(std::int64_t step,
                                               const std::vector<nn::NamedTensor>& tensors) const {
  const auto expected = weights(step);
  std::size_t at = 0;
  for (const nn::NamedTensor& tensor : tensors) {
    const auto part = expected.subspan(at, tensor.values.size());
    // Bytes, not numbers: 0 and -0 lead to different results.
    if (std::memcmp(part.data(), tensor.values.data(), part.size_bytes()) != 0) return tensor.name;
    at += tensor.values.size();
  }
  return "";
}

std::span<const double> ReferenceWeights::state(std::int64_t step) const {
  ensure(step <= steps(), "step {} of {} that the reference took", step, steps());
  return state_values(step, 0);
}

void ReferenceWeights::check_start(const std::vector<nn::NamedTensor>& tensors,
                                   const std::vector<nn::NamedTensor>& state) const {
  std::string name = first_difference(0, tensors);
  if (name.empty() && !std::ranges::equal(nn::flat_state(state), state_values(0, 0))) {
    name = "the state";
  }
  if (name.empty()) return;
  throw VerificationError(fmt::format(
      "the starting weights of {} differ from the reference's; they come from the same seed or "
      "file and must be equal bit by bit",
      name));
}

void ReferenceWeights::compare(std::int64_t step, const std::vector<nn::NamedTensor>& after,
                               double tolerance, VerificationResult& result) const {
  const auto expected = weights(step);
  const auto update_sizes = sizes(step), norms = update_norms(step);
  ensure(after.size() == update_sizes.size(), "{} tensors where the reference has {}", after.size(),
         update_sizes.size());
  std::size_t at = 0, vague = 0;
  for (std::size_t t = 0; t < after.size(); ++t) {
    const std::vector<float>& values = after[t].values;
    const auto right = expected.subspan(at, values.size());
    const Comparison found = compare_tensor(values, right);
    const double allowed = enter(found, update_sizes[t], tolerance, after[t].name, step, result);
    if (allowed > 0 && allowed >= kVagueShare * norms[t]) vague += values.size();
    result.weights_hash =
        hash_bytes(values.data(), values.size() * sizeof(float), result.weights_hash);
    at += values.size();
  }
  const double share = at == 0 ? 0 : static_cast<double>(vague) / static_cast<double>(at);
  result.vague_share = result.steps == 0 ? share : std::min(result.vague_share, share);
  result.steps = step;
}

void ReferenceWeights::compare_state(std::int64_t step, std::int64_t slice,
                                     const std::vector<nn::NamedTensor>& after, double tolerance,
                                     VerificationResult& result) const {
  const std::span<const double> expected = state_values(step, slice),
                                sizes = state_sizes(step, slice);
  ensure(after.size() == sizes.size(), "{} tensors of state where the reference has {}",
         after.size(), sizes.size());
  std::size_t at = 0;
  for (std::size_t t = 0; t < after.size(); ++t) {
    const std::vector<double> values = nn::flat_state({after[t]});
    const auto part = expected.subspan(at, values.size());
    at += values.size();
    const bool counts = after[t].type != DataType::fp32;
    if (counts && std::ranges::equal(values, part)) continue;
    Comparison found{.difference = std::numeric_limits<double>::infinity()};
    if (!counts) {
      found = compare_tensor(after[t].values, std::vector<float>(part.begin(), part.end()));
    }
    enter(found, sizes[t], tolerance, after[t].name, step, result);
  }
}

}  // namespace ddpbench::bench
