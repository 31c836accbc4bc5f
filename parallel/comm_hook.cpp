// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm_hook.h"

#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"

namespace ddpbench {

std::optional<ops::Encoding> encoding_of(const std::string& hook) {
  using Kind = ops::Encoding::Kind;
  if (hook == "none") return std::nullopt;
  if (hook == "bf16") return ops::Encoding{Kind::bf16};
  if (hook == "fp16") return ops::Encoding{Kind::fp16};
  if (hook == "int8") return ops::Encoding{Kind::int8};
  constexpr std::string_view kTop = "topk:";
  const double percent =
      hook.starts_with(kTop) ? number_in<double>(hook.substr(kTop.size())).value_or(0) : 0;
  constexpr double kLeast = 0.025;  // of runs of 4,096: one value
  if (!(percent >= kLeast && percent <= 100)) {
    throw ConfigError(fmt::format(
        "--comm-hook={}: expected none, bf16, fp16, int8 or topk:P with P from {} to 100 percent",
        hook, kLeast));
  }
  ops::Encoding largest{Kind::largest};
  const double kept = std::ceil(percent / 100 * static_cast<double>(largest.run()));
  largest.kept = static_cast<std::size_t>(kept);
  return largest;
}

std::vector<PlannedBuffer> CommHook::planned(std::span<const Bucket> buckets) {
  places_.clear();
  std::size_t offset = 0, flat = 0;
  for (const Bucket& bucket : buckets) {
    const std::size_t bytes = encoding_.bytes(bucket.bytes / sizeof(float));
    const std::size_t stride = round_up(bytes, nn::kParameterAlignment);
    places_.push_back({offset, bytes, stride, bucket.offset_bytes});
    offset += parts() * stride;
    flat += bucket.bytes;
  }
  return {{&encoded_, MemoryCategory::communication, offset, Sharing::mappable},
          {&error_, MemoryCategory::communication, encoding_.is_cast() ? 0 : flat}};
}

void CommHook::open(std::span<const Bucket> buckets) {
  allocate(*context_.devices[0], planned(buckets));
  registered_.add(world(), encoded_);
}

comm::Work CommHook::start(std::size_t b, const BufferView& gradients,
                           const comm::CallOptions& options) {
  const auto& [offset, bytes, stride, error] = places_[b];
  const std::size_t own = encoding_.is_cast() ? 0 : static_cast<std::size_t>(world().rank());
  std::byte* const all = encoded_.data() + offset;
  std::byte* const out = all + own * stride;
  const std::size_t count = gradients.bytes / sizeof(float);
  context_.backends[0]->encode(
      *options.after, {.encoding = encoding_,
                       .in = reinterpret_cast<const float*>(gradients.data),
                       .count = count,
                       .scale = 1 / static_cast<float>(world().size()),
                       .error = error_ ? reinterpret_cast<float*>(error_.data() + error) : nullptr,
                       .out = out});
  if (!encoding_.is_cast()) {
    return world().all_gather({out, stride, DataType::uint8},
                              {all, parts() * stride, DataType::uint8}, options);
  }
  const bool is_bf16 = encoding_.kind == ops::Encoding::Kind::bf16;
  return world().all_reduce({out, count, is_bf16 ? DataType::bf16 : DataType::fp16},
                            comm::ReduceOp::sum, options);
}

void CommHook::decode(std::size_t b, Stream& stream, const BufferView& gradients) {
  context_.backends[0]->decode(stream, {.encoding = encoding_,
                                        .in = encoded_.data() + places_[b].offset,
                                        .parts = parts(),
                                        .stride = places_[b].stride,
                                        .out = reinterpret_cast<float*>(gradients.data),
                                        .count = gradients.bytes / sizeof(float)});
}

void CommHook::reset(Stream& stream) {
  if (error_) fill_with_zeros(*context_.devices[0], stream, error_);
}

}  // namespace ddpbench
