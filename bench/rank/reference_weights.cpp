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
#include "bench/rank/rounding_sizes.h"
#include "kernels/nn/weights.h"
#include "reports/metrics/verification_bound.h"

namespace ddpbench::bench {

// The memory: the header, and for each step a record of what it begins with and what it finds. The
// last record ends behind what the last step left.
struct ReferenceWeights::Header {
  Extent extent;
  std::int64_t stored;  // steps
  std::array<char, 256> diverged;
  std::atomic<std::uint32_t> complete;
};

namespace {

constexpr std::size_t kHeaderBytes = 512;
// A bound of at least this share of the update is vague: a device that misses it may be within.
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

double norm(std::span<const float> values) {
  double squared = 0;
  for (const float value : values) squared += static_cast<double>(value) * value;
  return std::sqrt(squared);
}

// What one tensor differs by, what it may, and the size to which both are relative in a report.
struct Finding {
  double difference = 0, allowed = 0, size = 0;
};

// Keeps the worse of what `result` has and this one, which is judged by `tolerance` where it has no
// size.
void enter(const Finding& found, double tolerance, const std::string& tensor, std::int64_t step,
           VerificationResult& result) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double error = found.difference == 0 ? 0 : kInfinite;
  double allowed = tolerance;
  if (found.size > 0 && std::isfinite(found.difference)) {
    error = found.difference / found.size;
    allowed = found.allowed / found.size;
  }
  // As products: a tolerance is never 0.
  const bool worse = error * result.tolerance > result.max_relative_error * allowed;
  if (!worse && !result.worst_tensor.empty()) return;
  result.max_relative_error = error;
  result.tolerance = allowed;
  result.worst_tensor = tensor;
  result.worst_step = step;
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

template <typename T>
std::size_t room_of(std::int64_t count) {
  return round_up(static_cast<std::size_t>(count) * sizeof(T), 64);
}

// Where the parts of a record begin: the weights before the step, the state, the gradients and
// their sizes, the state that each slice leaves and the sizes of what moved it.
struct Record {
  std::size_t state, gradients, sizes, slice_states, slice_sizes, bytes;

  explicit Record(const ReferenceWeights::Extent& extent)
      : state(room_of<float>(extent.parameters)),
        gradients(state + room_of<double>(extent.state_values)),
        sizes(gradients + room_of<float>(extent.parameters)),
        slice_states(sizes + room_of<double>(extent.tensors)),
        slice_sizes(slice_states + room_of<double>(extent.slices * extent.state_values)),
        bytes(slice_sizes + room_of<double>(extent.slices * extent.state_tensors)) {}
};

}  // namespace

std::size_t ReferenceWeights::Extent::bytes() const {
  const Record record(*this);
  return kHeaderBytes + static_cast<std::size_t>(steps) * record.bytes + record.gradients;
}

ReferenceWeights::Extent ReferenceWeights::extent_of(const TrainingJob& job,
                                                     const nn::ModelSpec& model) {
  const Extent extent{.parameters = model.parameter_count(),
                      .tensors = model.tensor_count(),
                      .steps = job.options.verify_steps,
                      .slices = job.cell.world_size,
                      .state_values = model.state_count(),
                      .state_tensors = model.state_tensor_count()};
  // The reference's process keeps more beside them, for the sizes of gradients.
  const std::uint64_t limit = memory_limit(read_host_limits()).bytes;
  const std::uint64_t beside =
      static_cast<std::uint64_t>(extent.parameters) * GradientSizes::kBytesPerParameter;
  const std::uint64_t usable = limit - std::min(limit, beside);
  if (extent.bytes() <= usable) return extent;
  const Record record(extent);
  const std::uint64_t left =
      usable - std::min<std::uint64_t>(usable, kHeaderBytes + record.gradients);
  throw ConfigError(fmt::format(
      "--verify-steps={}: the reference keeps weights and gradients of each step, {} "
      "bytes in all, of {} that can be used here for them; use at most --verify-steps={}",
      extent.steps, extent.bytes(), usable, left / record.bytes));
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

template <typename T>
std::span<T> ReferenceWeights::part(std::int64_t step, std::size_t offset,
                                    std::int64_t count) const {
  const Extent& extent = header().extent;
  ensure(step >= 0 && step <= extent.steps, "step {} of a reference of {}", step, extent.steps);
  const std::size_t begin =
      kHeaderBytes + static_cast<std::size_t>(step) * Record(extent).bytes + offset;
  return memory_.view().slice(begin, static_cast<std::size_t>(count) * sizeof(T)).as<T>();
}

std::span<float> ReferenceWeights::values(std::int64_t step) const {
  return part<float>(step, 0, header().extent.parameters);
}

std::span<double> ReferenceWeights::begun_state(std::int64_t step) const {
  return part<double>(step, Record(header().extent).state, header().extent.state_values);
}

std::span<float> ReferenceWeights::gradients(std::int64_t step) const {
  return part<float>(step - 1, Record(header().extent).gradients, header().extent.parameters);
}

std::span<double> ReferenceWeights::sizes(std::int64_t step) const {
  return part<double>(step - 1, Record(header().extent).sizes, header().extent.tensors);
}

std::span<double> ReferenceWeights::slice_part(std::int64_t step, std::int64_t slice,
                                               std::size_t offset, std::int64_t each) const {
  const std::int64_t slices = header().extent.slices;
  ensure(slice >= 0 && slice < slices, "slice {} of a reference of {}", slice, slices);
  return part<double>(step - 1, offset, slices * each)
      .subspan(static_cast<std::size_t>(slice * each), static_cast<std::size_t>(each));
}

std::span<double> ReferenceWeights::slice_state(std::int64_t step, std::int64_t slice) const {
  const Extent& extent = header().extent;
  return slice_part(step, slice, Record(extent).slice_states, extent.state_values);
}

std::span<double> ReferenceWeights::slice_sizes(std::int64_t step, std::int64_t slice) const {
  const Extent& extent = header().extent;
  return slice_part(step, slice, Record(extent).slice_sizes, extent.state_tensors);
}

void ReferenceWeights::store_start(const std::vector<nn::NamedTensor>& weights) {
  flatten_into(weights, values(0));
}

void ReferenceWeights::store_start_state(const std::vector<nn::NamedTensor>& state) {
  copy_all(nn::flat_state(state), begun_state(0));
}

void ReferenceWeights::store_slice_state(std::int64_t step, std::int64_t slice,
                                         const std::vector<nn::NamedTensor>& after,
                                         std::span<const double> sizes) {
  copy_all(nn::flat_state(after), slice_state(step, slice));
  if (slice == 0) copy_all(nn::flat_state(after), begun_state(step));
  copy_all(sizes, slice_sizes(step, slice));
}

void ReferenceWeights::store_step(const std::vector<nn::NamedTensor>& after,
                                  const std::vector<nn::NamedTensor>& gradients,
                                  std::span<const double> sizes) {
  const std::int64_t step = header().stored + 1;
  flatten_into(after, values(step));
  flatten_into(gradients, this->gradients(step));
  copy_all(sizes, this->sizes(step));
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
  return begun_state(step);
}

void ReferenceWeights::check_start(const std::vector<nn::NamedTensor>& tensors,
                                   const std::vector<nn::NamedTensor>& state) const {
  std::string name = first_difference(0, tensors);
  if (name.empty() && !std::ranges::equal(nn::flat_state(state), begun_state(0))) {
    name = "the state";
  }
  if (name.empty()) return;
  throw VerificationError(fmt::format(
      "the starting weights of {} differ from the reference's; they come from the same seed or "
      "file and must be equal bit by bit",
      name));
}

void ReferenceWeights::compare_gradients(std::int64_t step,
                                         const std::vector<nn::NamedTensor>& gradients,
                                         double tolerance, VerificationResult& result) const {
  const std::span<const float> expected = this->gradients(step);
  const std::span<const double> sizes = this->sizes(step);
  ensure(gradients.size() == sizes.size(), "{} tensors where the reference has {}",
         gradients.size(), sizes.size());
  std::size_t at = 0;
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    const std::vector<float>& own = gradients[t].values;
    const double difference = distance(own, expected.subspan(at, own.size()));
    enter({difference, tolerance * sizes[t], sizes[t]}, tolerance, gradients[t].name, step, result);
    at += own.size();
  }
}

void ReferenceWeights::compare_update(std::int64_t step, const std::vector<nn::NamedTensor>& after,
                                      const ExpectedUpdate& expected,
                                      VerificationResult& result) const {
  const std::span<const float> before = weights(step - 1), right = expected.weights,
                               sizes = expected.sizes;
  std::size_t at = 0, vague = 0;
  for (const nn::NamedTensor& tensor : after) {
    const std::vector<float>& values = tensor.values;
    const auto part = right.subspan(at, values.size());
    const Comparison found = compare_tensor(values, part);
    const double size = norm(sizes.subspan(at, values.size()));
    const double allowed =
        size > 0 ? report::stored_difference_bound(kUpdateTolerance * size, found.spacing) : 0;
    if (!std::isfinite(found.difference) || found.difference > allowed) {
      enter({found.difference, allowed, size}, kUpdateTolerance, tensor.name, step, result);
    }
    const double moved = distance(before.subspan(at, values.size()), part);
    if (allowed > 0 && allowed >= kVagueShare * moved) vague += values.size();
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
  const std::span<const double> expected = slice_state(step, slice),
                                sizes = slice_sizes(step, slice);
  ensure(after.size() == sizes.size(), "{} tensors of state where the reference has {}",
         after.size(), sizes.size());
  std::size_t at = 0;
  for (std::size_t t = 0; t < after.size(); ++t) {
    const std::vector<double> values = nn::flat_state({after[t]});
    const auto part = expected.subspan(at, values.size());
    at += values.size();
    const bool counts = after[t].type != DataType::fp32;
    if (counts && std::ranges::equal(values, part)) continue;
    Finding found{.difference = std::numeric_limits<double>::infinity(), .size = sizes[t]};
    if (!counts) {
      const auto [difference, spacing] =
          compare_tensor(after[t].values, std::vector<float>(part.begin(), part.end()));
      found.difference = difference;
      if (sizes[t] > 0) {
        found.allowed = report::stored_difference_bound(tolerance * sizes[t], spacing);
      }
    }
    enter(found, tolerance, after[t].name, step, result);
  }
}

}  // namespace ddpbench::bench
