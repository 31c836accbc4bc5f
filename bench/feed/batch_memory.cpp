// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/feed/batch_memory.h"

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

}  // namespace ddpbench::bench
