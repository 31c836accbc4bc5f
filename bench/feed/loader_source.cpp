// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of a batch, and batches from the host's loader.
#include "base/error.h"
#include "bench/feed/batch_source.h"

namespace ddpbench::bench {

BatchMemory::BatchMemory(const BatchShape& shape, FilledBy filled_by)
    : labels_offset_(shape.samples * shape.image_bytes),
      weight_offset_(labels_offset_ +
                     shape.samples * shape.labels_per_sample * sizeof(std::int32_t)),
      bytes_(weight_offset_ + (shape.has_valid_weight ? sizeof(float) : 0)),
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

void BatchMemory::upload(Stream& stream, const BatchMemory& from) {
  if (needs_upload()) stream.device().copy(stream, memory_.view(), from.staging_.view());
}

namespace {

// One batch in use, one ready, one being assembled.
constexpr int kBatchesInFlight = 3;

// Where steps read the memory that the loader fills and there are no workers, none is in flight.
int buffers_of(const Device& device, const BatchSourceOptions& options) {
  return device.is_host_accessible() && options.loader.workers == 0 ? 1 : kBatchesInFlight;
}

// The batches have no memory yet.
std::vector<BatchMemory> plan_batches(const Device& device, const BatchSourceOptions& options) {
  std::vector<BatchMemory> batches;
  for (int i = 0; i < buffers_of(device, options); ++i) {
    batches.emplace_back(options.shape());
  }
  return batches;
}

std::vector<BatchMemory> make_batches(Device& device, const BatchSourceOptions& options) {
  std::vector<BatchMemory> batches = plan_batches(device, options);
  for (BatchMemory& batch : batches) batch.allocate(device);
  return batches;
}

data::Loader make_loader(const data::Split& split, const data::ShardedSampler& sampler,
                         data::LoaderOptions options, const std::vector<BatchMemory>& memory) {
  for (const BatchMemory& batch : memory) options.buffers.push_back(batch.host());
  return data::Loader(split, sampler, options);
}

// Steps read the memory that the loader fills.
class InPlaceSource final : public BatchSource {
 public:
  InPlaceSource(Device& device, const data::Split& split, const data::ShardedSampler& sampler,
                const BatchSourceOptions& options)
      : memory_(make_batches(device, options)),
        loader_(make_loader(split, sampler, options.loader, memory_)) {}

  void begin_epoch(std::int64_t epoch, std::int64_t max_steps) override {
    loader_.begin_epoch(epoch, max_steps);
  }
  StepInput next(Stream&) override {
    const data::BatchBuffer* const batch = loader_.next();
    ensure(batch != nullptr, "the loader ended before the epoch did");
    return {batch->images, batch->labels, batch->valid_weight};
  }
  void consumed(Stream&) override {}

 private:
  std::vector<BatchMemory> memory_;
  data::Loader loader_;
};

// The loader fills page-locked memory, which a separate stream copies to the device. A batch's
// device memory is written again once the step that read it is done. Its host memory goes back to
// the loader once the copy is done.
class CopyingSource final : public BatchSource {
 public:
  CopyingSource(Device& device, const data::Split& split, const data::ShardedSampler& sampler,
                const BatchSourceOptions& options)
      : wait_(options.wait),
        memory_(make_batches(device, options)),
        copies_(device.make_stream()),
        loader_(make_loader(split, sampler, options.loader, memory_)) {
    for (int i = 0; i < kBatchesInFlight; ++i) {
      copied_.push_back(device.make_event());
      consumed_.push_back(device.make_event());
    }
  }
  // The wait for the steps reports what failed.
  ~CopyingSource() override {
    if (wait_->gave_up()) return;
    try {
      copies_->synchronize();
    } catch (const Error&) {
    }
  }

  void begin_epoch(std::int64_t epoch, std::int64_t max_steps) override {
    wait_for_copy();
    loader_.begin_epoch(epoch, max_steps);
  }

  StepInput next(Stream& stream) override {
    wait_for_copy();  // before the loader takes the buffer back
    const data::BatchBuffer* const batch = loader_.next();
    ensure(batch != nullptr, "the loader ended before the epoch did");
    slot_ = (slot_ + 1) % memory_.size();
    if (used_ >= memory_.size()) copies_->wait(*consumed_[slot_]);
    memory_[slot_].upload(*copies_, source_of(*batch));
    copies_->record(*copied_[slot_]);
    stream.wait(*copied_[slot_]);
    copying_ = true;
    return memory_[slot_].device();
  }

  void consumed(Stream& stream) override {
    stream.record(*consumed_[slot_]);
    ++used_;
  }

 private:
  const BatchMemory& source_of(const data::BatchBuffer& batch) const {
    for (const BatchMemory& memory : memory_) {
      if (memory.host().images == batch.images) return memory;
    }
    throw InternalError("the loader returned a buffer that it was not given");
  }

  void wait_for_copy() {
    if (!copying_) return;
    wait_->until(*copied_[slot_], "the copy of a batch");
    copying_ = false;
  }

  std::shared_ptr<DeviceWait> wait_;
  std::vector<BatchMemory> memory_;  // [slot]; the loader uses their host sides in its own order
  std::unique_ptr<Stream> copies_;
  std::vector<std::unique_ptr<Event>> copied_, consumed_;  // [slot]
  std::size_t slot_ = 0, used_ = 0;
  bool copying_ = false;
  data::Loader loader_;  // declared last: its threads end before its memory does
};

}  // namespace

void add_loader_source(MemoryNeeds& needs, const BatchSourceOptions& options) {
  for (BatchMemory& batch : plan_batches(needs.device(), options)) needs.add(batch.planned());
}

std::unique_ptr<BatchSource> make_loader_source(Device& device, const data::Split& split,
                                                const data::ShardedSampler& sampler,
                                                const BatchSourceOptions& options) {
  if (device.is_host_accessible()) {
    return std::make_unique<InPlaceSource>(device, split, sampler, options);
  }
  return std::make_unique<CopyingSource>(device, split, sampler, options);
}

}  // namespace ddpbench::bench
