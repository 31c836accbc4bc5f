// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/feed/batch_memory.h"

namespace ddpbench::bench {

BatchMemory::BatchMemory(std::size_t samples, std::size_t image_bytes, FilledBy filled_by)
    : bytes_(samples * (image_bytes + sizeof(std::int32_t))),
      labels_offset_(samples * image_bytes),
      filled_by_(filled_by) {}

void BatchMemory::allocate(Device& device) {
  ddpbench::allocate(device, planned());
  const bool stages = filled_by_ == FilledBy::host && !device.is_host_accessible();
  if (stages) staging_ = device.allocate_staging(bytes_);
}

data::BatchBuffer BatchMemory::view_of(const Buffer& buffer) const {
  return {reinterpret_cast<float*>(buffer.data()),
          reinterpret_cast<std::int32_t*>(buffer.data() + labels_offset_)};
}

StepInput BatchMemory::device() const {
  const data::BatchBuffer view = view_of(memory_);
  return {view.images, view.labels};
}

void BatchMemory::upload(Stream& stream, const BatchMemory& from) {
  if (needs_upload()) stream.device().copy(stream, memory_.view(), from.staging_.view());
}

}  // namespace ddpbench::bench
