// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of a batch, and batches from the host's loader.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "bench/feed/batch_source.h"

namespace ddpbench::bench {

BatchMemory::BatchMemory(const BatchSourceOptions& options, FilledBy filled_by)
    : labels_offset_(options.samples * options.image_bytes),
      weight_offset_(labels_offset_ +
                     options.samples * options.labels_per_sample * sizeof(std::int32_t)),
      bytes_(weight_offset_ + (options.has_valid_weight() ? sizeof(float) : 0)),
      filled_by_(filled_by) {}

void BatchMemory::allocate(Device& device) {
  ddpbench::allocate(device, planned());
  const bool stages = filled_by_ == FilledBy::host && !device.is_host_accessible();
  if (stages) staging_ = device.allocate_staging(bytes_);
}

data::BatchBuffer BatchMemory::view_of(const Buffer& buffer) const {
  const bool weighted = weight_offset_ < bytes_;
  return {reinterpret_cast<float*>(buffer.data()),
          reinterpret_cast<std::int32_t*>(buffer.data() + labels_offset_),
          weighted ? reinterpret_cast<float*>(buffer.data() + weight_offset_) : nullptr};
}

StepInput BatchMemory::device() const {
  const data::BatchBuffer view = view_of(memory_);
  return {view.images, view.labels, view.valid_weight};
}

void BatchMemory::copy(Stream& stream, const StepInput& from) {
  // The copy only reads its source; BufferView has no constant form.
  auto* const source = reinterpret_cast<std::byte*>(const_cast<float*>(from.images));
  stream.device().copy(stream, memory_.view(), {source, bytes_});
}

void BatchMemory::upload(Stream& stream, const BatchMemory& from) {
  if (needs_upload()) stream.device().copy(stream, memory_.view(), from.staging_.view());
}

namespace {

// One batch in use, one ready, one being assembled.
constexpr int kBatchesInFlight = 3;

// The batches have no memory yet. Where steps read the memory that the loader fills and there are
// no workers, none is in flight.
std::vector<BatchMemory> plan_batches(const Device& device, const BatchSourceOptions& options) {
  const bool alone = device.is_host_accessible() && options.loader.workers == 0;
  std::vector<BatchMemory> batches;
  for (int i = 0; i < (alone ? 1 : kBatchesInFlight); ++i) batches.emplace_back(options);
  return batches;
}

// Where the host cannot write the device's memory, the loader fills page-locked memory, which a
// separate stream copies to the device. A batch's device memory is written again once the step that
// read it is done. Its host memory goes back to the loader once the copy is done. Elsewhere steps
// read the memory that the loader fills.
class LoaderSource final : public BatchSource {
 public:
  LoaderSource(Device& device, const data::Split& split, const data::ShardedSampler& sampler,
               const BatchSourceOptions& options)
      : wait_(options.wait), memory_(plan_batches(device, options)) {
    data::LoaderOptions loading = options.loader;
    for (BatchMemory& batch : memory_) {
      batch.allocate(device);
      loading.buffers.push_back(batch.host());
      copied_.push_back(device.make_event());
      consumed_.push_back(device.make_event());
    }
    if (memory_[0].needs_upload()) copies_ = device.make_stream();
    loader_.emplace(split, sampler, std::move(loading));
  }
  // The wait for the steps reports what failed.
  ~LoaderSource() override {
    if (!copies_ || wait_->gave_up()) return;
    try {
      copies_->synchronize();
    } catch (const Error&) {
    }
  }

  void begin_epoch(std::int64_t epoch, std::int64_t max_steps, std::int64_t first_step) override {
    wait_for_copy();
    loader_->begin_epoch(epoch, max_steps, first_step);
  }

  StepInput next(Stream& stream) override {
    wait_for_copy();  // before the loader takes the buffer back
    const data::BatchBuffer* const batch = loader_->next();
    ensure(batch != nullptr, "the loader ended before the epoch did");
    if (!copies_) return {batch->images, batch->labels, batch->valid_weight};
    slot_ = (slot_ + 1) % memory_.size();
    if (used_ >= memory_.size()) copies_->wait(*consumed_[slot_]);
    const auto source = std::ranges::find(
        memory_, batch->images, [](const BatchMemory& memory) { return memory.host().images; });
    memory_[slot_].upload(*copies_, *source);
    copies_->record(*copied_[slot_]);
    stream.wait(*copied_[slot_]);
    copying_ = true;
    return memory_[slot_].device();
  }

  void consumed(Stream& stream) override {
    if (!copies_) return;
    stream.record(*consumed_[slot_]);
    ++used_;
  }

 private:
  void wait_for_copy() {
    if (!copying_) return;
    wait_->until(*copied_[slot_], "the copy of a batch");
    copying_ = false;
  }

  std::shared_ptr<DeviceWait> wait_;
  std::vector<BatchMemory> memory_;  // [slot]; the loader uses their host sides in its own order
  std::unique_ptr<Stream> copies_;   // null where there is nothing to copy
  std::vector<std::unique_ptr<Event>> copied_, consumed_;  // [slot]
  std::size_t slot_ = 0, used_ = 0;
  bool copying_ = false;
  std::optional<data::Loader> loader_;  // declared last: its threads end before its memory does
};

}  // namespace

void add_loader_source(MemoryNeeds& needs, const BatchSourceOptions& options) {
  for (BatchMemory& batch : plan_batches(needs.device(), options)) needs.add(batch.planned());
}

std::unique_ptr<BatchSource> make_loader_source(Device& device, const data::Split& split,
                                                const data::ShardedSampler& sampler,
                                                const BatchSourceOptions& options) {
  return std::make_unique<LoaderSource>(device, split, sampler, options);
}

}  // namespace ddpbench::bench
