// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches from a data set on the device: a step copies nothing from the host. An epoch's order is
// copied before its first step. Each batch is picked and normalised on the steps' own stream.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "bench/feed/batch_source.h"

namespace ddpbench::bench {
namespace {

struct ResidentMemory {
  Buffer images, labels;  // the data set
  Buffer order;           // sample indices of all batches of an epoch, in order
  Buffer weights;         // valid_weight of these batches, where labels are ignored
  BatchMemory batch;

  explicit ResidentMemory(const BatchSourceOptions& options) : batch(options, FilledBy::device) {}
  // The buffers besides the batch.
  std::vector<PlannedBuffer> planned(const data::Split& split, const data::ShardedSampler& sampler,
                                     const BatchSourceOptions& options) {
    const auto passes = static_cast<std::size_t>(sampler.passes_per_epoch());
    return {
        {&images, MemoryCategory::input, split.images.size()},
        {&labels, MemoryCategory::input, split.labels.size_bytes()},
        {&order, MemoryCategory::input, passes * options.samples * sizeof(std::int32_t)},
        {&weights, MemoryCategory::input, options.has_valid_weight() ? passes * sizeof(float) : 0}};
  }
};

void upload(const Buffer& buffer, std::span<const std::byte> bytes, Device& device) {
  const auto stream = device.make_stream();
  // The copy only reads its source; BufferView has no constant form.
  auto* const source = const_cast<std::byte*>(bytes.data());
  device.copy(*stream, buffer.view(), {source, bytes.size()});
  stream->synchronize();
}

class ResidentSource final : public BatchSource {
 public:
  ResidentSource(Device& device, ops::OpBackend& backend, const data::Split& split,
                 const data::ShardedSampler& sampler, const BatchSourceOptions& options)
      : device_(device),
        split_(split),
        sampler_(sampler),
        options_(options),
        backend_(backend),
        mean_(data::for_each_channel(options.loader.normalization.mean, split.channels)),
        std_(data::for_each_channel(options.loader.normalization.std, split.channels)),
        memory_(options),
        uploaded_(device.make_event()) {
    allocate(device, memory_.planned(split, sampler, options));
    memory_.batch.allocate(device);
    upload(memory_.images, std::as_bytes(split.images), device);
    upload(memory_.labels, std::as_bytes(split.labels), device);
    staged_order_ = device.allocate_staging(memory_.order.bytes());
    if (!options.has_valid_weight()) return;
    staged_weights_ = device.allocate_staging(memory_.weights.bytes());
    label_counts_.emplace(split, options.loader.ignored_label);
  }

  void begin_epoch(std::int64_t epoch, std::int64_t max_steps, std::int64_t first_step) override {
    if (order_used_) options_.wait->until(*uploaded_, "the copy of an epoch's order");
    sampler_.begin_epoch(epoch);
    const std::int64_t steps = std::min(first_step + max_steps, sampler_.steps_per_epoch());
    if (label_counts_) label_counts_->check(sampler_, steps);
    passes_ = steps * sampler_.options().passes;
    fill_order();
    pass_ = first_ = first_step * sampler_.options().passes;
  }

  StepInput next(Stream& stream) override {
    ensure(pass_ < passes_, "a batch beyond the end of the epoch");
    const std::size_t bytes =
        static_cast<std::size_t>(passes_) * options_.samples * sizeof(std::int32_t);
    // The copy follows the previous epoch on the same stream, whose steps still read its order.
    if (pass_ == first_ && bytes > 0) {
      device_.copy(stream, memory_.order.view().slice(0, bytes),
                   staged_order_.view().slice(0, bytes));
      if (label_counts_) device_.copy(stream, memory_.weights.view(), staged_weights_.view());
      stream.record(*uploaded_);
      order_used_ = true;
    }
    const StepInput input = memory_.batch.device();
    gather(stream, input);
    if (label_counts_) {
      device_.copy(stream, memory_.batch.device_valid_weight(),
                   weight_view(memory_.weights, pass_));
    }
    ++pass_;
    return input;
  }

  void consumed(Stream&) override {}

 private:
  // Writes the sample indices of the batches of all passes, in their order.
  void fill_order() {
    const std::size_t part = options_.samples / options_.loader.shards.size();
    std::vector<std::int64_t> indices(part);
    auto* out = staged_order_.view().as<std::int32_t>().data();
    for (std::int64_t pass = 0; pass < passes_; ++pass) {
      for (const int shard : options_.loader.shards) {
        sampler_.batch(pass, shard, indices);
        out = std::ranges::transform(indices, out, [](std::int64_t index) {
                return static_cast<std::int32_t>(index);
              }).out;
      }
      if (!label_counts_) continue;
      staged_weights_.view().as<float>()[static_cast<std::size_t>(pass)] =
          label_counts_->weight(sampler_, pass / sampler_.options().passes);
    }
  }

  static BufferView weight_view(const Buffer& weights, std::int64_t pass) {
    return weights.view().slice(static_cast<std::size_t>(pass) * sizeof(float), sizeof(float));
  }

  void gather(Stream& stream, const StepInput& input) {
    ops::GatherArgs args;
    args.images = memory_.images.view().as<const std::uint8_t>().data();
    args.labels = memory_.labels.view().as<const std::uint16_t>().data();
    args.indices = memory_.order.view().as<const std::int32_t>().data() +
                   static_cast<std::size_t>(pass_) * options_.samples;
    args.batch = static_cast<std::int64_t>(options_.samples);
    args.sample_elements = static_cast<std::int64_t>(split_.sample_bytes);
    args.labels_per_sample = static_cast<std::int64_t>(split_.labels_per_sample);
    args.channels = split_.channels;
    args.mean = mean_;
    args.std = std_;
    args.out = const_cast<float*>(input.images);
    args.labels_out = const_cast<std::int32_t*>(input.labels);
    backend_.gather(stream, args);
  }

  Device& device_;
  const data::Split& split_;
  data::ShardedSampler sampler_;
  BatchSourceOptions options_;
  ops::OpBackend& backend_;
  std::vector<double> mean_, std_;  // [channel]
  ResidentMemory memory_;
  Buffer staged_order_, staged_weights_;
  std::optional<data::LabelCounts> label_counts_;  // where a label is ignored
  std::unique_ptr<Event> uploaded_;
  bool order_used_ = false;
  std::int64_t first_ = 0, pass_ = 0, passes_ = 0;  // of the epoch
};

}  // namespace

void add_resident_source(MemoryNeeds& needs, const data::Split& split,
                         const data::ShardedSampler& sampler, const BatchSourceOptions& options) {
  ResidentMemory memory(options);
  needs.add(memory.planned(split, sampler, options));
  needs.add(memory.batch.planned());
}

std::unique_ptr<BatchSource> make_resident_source(Device& device, ops::OpBackend& backend,
                                                  const data::Split& split,
                                                  const data::ShardedSampler& sampler,
                                                  const BatchSourceOptions& options) {
  return std::make_unique<ResidentSource>(device, backend, split, sampler, options);
}

}  // namespace ddpbench::bench
