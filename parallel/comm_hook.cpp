// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm_hook.h"

#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"

namespace ddpbench {
namespace {

// Gradients are divided by the number of ranks before. Casts are all-reduced in their type. All
// else is gathered, and each rank adds up the same bits in the same order. There a rank keeps what
// it did not send and adds it in the next step (error feedback: Seide et al., Interspeech 2014).
class EncodingHook final : public CommHook {
 public:
  EncodingHook(const ops::Encoding& encoding, const StrategyContext& context)
      : CommHook(context), encoding_(encoding) {}

  std::vector<PlannedBuffer> planned(const nn::ParameterPlan&,
                                     std::span<const Bucket> buckets) override {
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

  void open() override { registered_.add(world(), encoded_); }

  comm::Work start(std::size_t b, const BufferView& gradients,
                   const comm::CallOptions& options) override {
    const auto& [offset, bytes, stride, error] = places_[b];
    const std::size_t own = encoding_.is_cast() ? 0 : static_cast<std::size_t>(world().rank());
    std::byte* const all = encoded_.data() + offset;
    std::byte* const out = all + own * stride;
    const std::size_t count = gradients.bytes / sizeof(float);
    backend().encode(*options.after,
                     {.encoding = encoding_,
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

  void decode(std::size_t b, Stream& stream, const BufferView& gradients) override {
    backend().decode(stream, {.encoding = encoding_,
                              .in = encoded_.data() + places_[b].offset,
                              .parts = parts(),
                              .stride = places_[b].stride,
                              .out = reinterpret_cast<float*>(gradients.data),
                              .count = gradients.bytes / sizeof(float)});
  }

  std::size_t sent_bytes(std::size_t b) const override { return places_[b].bytes; }
  void add_parts(std::vector<StatePart>& parts) const override {
    add_own(parts, {.kind = StatePart::Kind::extra, .name = "comm_hook_error"}, error_);
  }

  void reset(Stream& stream) override {
    if (error_) fill_with_zeros(device(), stream, error_);
  }

 private:
  struct Place {
    std::size_t offset, bytes, stride;  // of ranks' encodings; of a cast's only one
    std::size_t error;                  // offset
  };
  std::size_t parts() const {
    return encoding_.is_cast() ? 1 : static_cast<std::size_t>(world().size());
  }

  const ops::Encoding encoding_;
  std::vector<Place> places_;  // [bucket]
  Buffer encoded_, error_;
  Registrations registered_;
};

// The R of "powersgd:R".
std::optional<std::int64_t> approximation_of(const std::string& hook) {
  constexpr std::string_view kPower = "powersgd:";
  if (!hook.starts_with(kPower)) return std::nullopt;
  const std::int64_t width = number_in<std::int64_t>(hook.substr(kPower.size())).value_or(0);
  if (width >= 1 && width <= 64) return width;
  throw ConfigError(fmt::format("--comm-hook={}: expected powersgd:R with R from 1 to 64", hook));
}

}  // namespace

std::optional<ops::Encoding> encoding_of(const std::string& hook) {
  using Kind = ops::Encoding::Kind;
  if (hook == "none" || approximation_of(hook)) return std::nullopt;
  if (hook == "bf16") return ops::Encoding{Kind::bf16};
  if (hook == "fp16") return ops::Encoding{Kind::fp16};
  if (hook == "int8") return ops::Encoding{Kind::int8};
  constexpr std::string_view kTop = "topk:";
  const double percent =
      hook.starts_with(kTop) ? number_in<double>(hook.substr(kTop.size())).value_or(0) : 0;
  constexpr double kLeast = 0.025;  // of runs of 4,096: one value
  if (!(percent >= kLeast && percent <= 100)) {
    throw ConfigError(fmt::format(
        "--comm-hook={}: expected none, bf16, fp16, int8, powersgd:R, or topk:P with P from {} to "
        "100 percent",
        hook, kLeast));
  }
  ops::Encoding largest{Kind::largest};
  const double kept = std::ceil(percent / 100 * static_cast<double>(largest.run()));
  largest.kept = static_cast<std::size_t>(kept);
  return largest;
}

void CommHook::add_own(std::vector<StatePart>& parts, StatePart part, const Buffer& buffer) const {
  part.bytes = buffer.bytes();
  for (part.owner = 0; part.owner < world().size(); ++part.owner) {
    part.replica = part.owner;
    part.memory = part.owner == world().rank() ? buffer.view() : BufferView{};
    parts.push_back(part);
  }
}

std::unique_ptr<CommHook> make_comm_hook(const StrategyConfig& config,
                                         const StrategyContext& context) {
  if (const auto width = approximation_of(config.comm_hook))
    return make_power_sgd(*width, config.seed, context);
  const auto encoding = encoding_of(config.comm_hook);
  return encoding ? std::make_unique<EncodingHook>(*encoding, context) : nullptr;
}

}  // namespace ddpbench
