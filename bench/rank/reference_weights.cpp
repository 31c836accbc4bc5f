// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/reference_weights.h"

#include <sys/mman.h>

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
#include "kernels/nn/model/parts.h"
#include "kernels/nn/weights.h"
#include "reports/metrics/metrics.h"

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

// No power of two: backward rounds otherwise than without it. Two roundings of a tensor of few
// numbers may differ by many times what two others did by chance.
constexpr ProbeOptions kSampledRounding = {.loss_factor = 0.7, .allowance = 30};
// Where the probe rounds as the replicas do, the difference is the error itself.
constexpr double kSameRounding = 2;
// What the reference's process keeps beside it for each parameter: the gradients of the probe, of
// the slices so far, and with one more.
constexpr std::size_t kBytesBeside = 3 * sizeof(float);

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

report::StoredSpacing spacing_around(std::span<const float> after,
                                     std::span<const float> expected) {
  report::StoredSpacing result;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double spacing = spacing_of(std::max(std::abs(after[i]), std::abs(expected[i])));
    result.squared_sum += spacing * spacing;
    result.largest = std::max(result.largest, spacing);
  }
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
std::span<T> part_of(std::span<T> all, std::int64_t first, std::int64_t count) {
  return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

template <typename T>
std::size_t room_of(std::int64_t count) {
  return round_up(static_cast<std::size_t>(count) * sizeof(T), 64);
}

}  // namespace

double norm(std::span<const float> values) {
  double squared = 0;
  for (const float value : values) squared += static_cast<double>(value) * value;
  return std::sqrt(squared);
}

std::optional<ProbeOptions> probe_options(const TrainingJob& job) {
  if (!job.is_reference()) return {};
  if (job.options.precision == "fp32") {
    return job.network.has_state ? std::optional(kSampledRounding) : std::nullopt;
  }
  const int replicas = job.cell.world_size;
  if (std::has_single_bit(static_cast<unsigned>(replicas))) return {};
  return ProbeOptions{.loss_factor = static_cast<double>(replicas), .allowance = kSameRounding};
}

std::size_t ReferenceWeights::Extent::start_bytes() const {
  return room_of<float>(parameters) + room_of<double>(state_values);
}

std::size_t ReferenceWeights::Extent::step_bytes() const {
  return start_bytes() + room_of<float>(parameters) + room_of<double>(tensors) +
         room_of<double>(slices * state_values) + room_of<double>(slices * state_tensors);
}

std::size_t ReferenceWeights::Extent::bytes() const {
  return kHeaderBytes + static_cast<std::size_t>(steps) * step_bytes() + start_bytes();
}

ReferenceWeights::Extent ReferenceWeights::extent_of(const TrainingJob& job,
                                                     const nn::ModelSpec& model) {
  const Extent extent{.parameters = model.trained_count(),
                      .tensors = model.tensor_count(),
                      .steps = job.options.verify_steps,
                      .slices = strategy_config(job).replicas,
                      .state_values = model.state_count(),
                      .state_tensors = model.state_tensor_count()};
  const std::uint64_t limit = memory_limit(read_host_limits()).bytes;
  const std::uint64_t beside = static_cast<std::uint64_t>(extent.parameters) * kBytesBeside;
  const std::uint64_t usable = limit - std::min(limit, beside);
  if (extent.bytes() <= usable) return extent;
  const std::uint64_t least = kHeaderBytes + extent.start_bytes();
  throw ConfigError(fmt::format(
      "--verify-steps={}: the reference keeps weights and gradients of each step, {} bytes in all, "
      "of {} that can be used here for them; use at most --verify-steps={}",
      extent.steps, extent.bytes(), usable,
      (usable - std::min(usable, least)) / extent.step_bytes()));
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

ReferenceWeights::Header& ReferenceWeights::header() const {
  return *reinterpret_cast<Header*>(memory_.view().data);
}

// The record of the last step is followed by what that step leaves.
ReferenceWeights::Record ReferenceWeights::record(std::int64_t step) const {
  const Extent& extent = header().extent;
  ensure(step >= 0 && step <= extent.steps, "step {} of a reference of {}", step, extent.steps);
  const std::int64_t found = step < extent.steps ? 1 : 0;
  std::size_t at = kHeaderBytes + static_cast<std::size_t>(step) * extent.step_bytes();
  const auto take = [&]<typename T>(T, std::int64_t count) {
    const BufferView part = memory_.view().slice(at, static_cast<std::size_t>(count) * sizeof(T));
    at += room_of<T>(count);
    return part.as<T>();
  };
  Record all = {.weights = take(float{}, extent.parameters),
                .state = take(double{}, extent.state_values),
                .gradients = take(float{}, found * extent.parameters),
                .sizes = take(double{}, found * extent.tensors),
                .slice_states = take(double{}, found * extent.slices * extent.state_values),
                .slice_sizes = take(double{}, found * extent.slices * extent.state_tensors)};
  if (part_.tensors == 0) return all;
  all.weights = part_of(all.weights, before_.parameters, part_.parameters);
  all.state = part_of(all.state, before_.state_values, part_.state_values);
  if (found == 0) return all;
  all.gradients = part_of(all.gradients, before_.parameters, part_.parameters);
  all.sizes = part_of(all.sizes, before_.tensors, part_.tensors);
  return all;
}

std::span<double> ReferenceWeights::of_slice(std::span<double> all, std::int64_t slice,
                                             std::int64_t Extent::*numbers) const {
  const std::int64_t slices = header().extent.slices;
  ensure(slice >= 0 && slice < slices, "slice {} of a reference of {}", slice, slices);
  const std::size_t each = all.size() / static_cast<std::size_t>(slices);
  const std::span<double> own = all.subspan(static_cast<std::size_t>(slice) * each, each);
  return part_.tensors == 0 ? own : part_of(own, before_.*numbers, part_.*numbers);
}

void ReferenceWeights::restrict_to(const nn::ModelSpec& model, const nn::ModelSpec& part) {
  const auto numbers = [](const nn::ModelSpec& layers) {
    return Extent{.parameters = layers.trained_count(),
                  .tensors = layers.tensor_count(),
                  .state_values = layers.state_count(),
                  .state_tensors = layers.state_tensor_count()};
  };
  const int first = nn::layers_before(model, part);
  before_ = first == 0 ? Extent{} : numbers(nn::layers_of(model, 0, first));
  part_ = numbers(part);
}

void ReferenceWeights::store_start(const std::vector<nn::NamedTensor>& weights,
                                   const std::vector<nn::NamedTensor>& state) {
  flatten_into(weights, record(0).weights);
  copy_all(nn::flat_state(state), record(0).state);
}

void ReferenceWeights::store_slice_state(std::int64_t step, std::int64_t slice,
                                         const std::vector<nn::NamedTensor>& after,
                                         std::span<const double> sizes) {
  const Record record = this->record(step - 1);
  copy_all(nn::flat_state(after), of_slice(record.slice_states, slice, &Extent::state_values));
  if (slice == 0) copy_all(nn::flat_state(after), this->record(step).state);
  copy_all(sizes, of_slice(record.slice_sizes, slice, &Extent::state_tensors));
}

void ReferenceWeights::store_step(const std::vector<nn::NamedTensor>& after,
                                  const std::vector<nn::NamedTensor>& gradients,
                                  std::span<const double> sizes) {
  const Record record = this->record(header().stored);
  flatten_into(after, this->record(++header().stored).weights);
  flatten_into(gradients, record.gradients);
  copy_all(sizes, record.sizes);
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
  return record(step).weights;
}

void ReferenceWeights::unload() const { ::madvise(memory_.view().data, bytes(), MADV_DONTNEED); }

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
  return record(step).state;
}

void ReferenceWeights::check_start(const std::vector<nn::NamedTensor>& tensors,
                                   const std::vector<nn::NamedTensor>& state) const {
  std::string name = first_difference(0, tensors);
  if (name.empty() && !std::ranges::equal(nn::flat_state(state), record(0).state)) {
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
  const Record record = this->record(step - 1);
  const std::span<const float> expected = record.gradients;
  const std::span<const double> sizes = record.sizes;
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
    const double difference = distance(values, part);
    const double size = norm(sizes.subspan(at, values.size()));
    const double allowed = size > 0 ? report::stored_difference_bound(kUpdateTolerance * size,
                                                                      spacing_around(values, part))
                                    : 0;
    if (!std::isfinite(difference) || difference > allowed) {
      enter({difference, allowed, size}, kUpdateTolerance, tensor.name, step, result);
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

double ReferenceWeights::divergence_of(const std::vector<nn::NamedTensor>& tensors) const {
  const auto expected = weights(steps()), start = weights(0);
  std::vector<float> own(expected.size());
  flatten_into(tensors, own);
  const double off = distance(own, expected);
  return off == 0 ? 0 : off / distance(expected, start);
}

void ReferenceWeights::compare_state(std::int64_t step, std::int64_t slice,
                                     const std::vector<nn::NamedTensor>& after, double tolerance,
                                     VerificationResult& result) const {
  const Record record = this->record(step - 1);
  const std::span<const double> expected =
                                    of_slice(record.slice_states, slice, &Extent::state_values),
                                sizes = of_slice(record.slice_sizes, slice, &Extent::state_tensors);
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
      const std::vector<float> wanted(part.begin(), part.end());
      found.difference = distance(after[t].values, wanted);
      if (sizes[t] > 0) {
        found.allowed = report::stored_difference_bound(tolerance * sizes[t],
                                                        spacing_around(after[t].values, wanted));
      }
    }
    enter(found, tolerance, after[t].name, step, result);
  }
}

}  // namespace ddpbench::bench
