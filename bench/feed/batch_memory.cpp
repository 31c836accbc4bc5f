// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/feed/batch_memory.h"

namespace ddpbench::bench {
namespace {

std::size_t batch_bytes(std::size_t samples, std::size_t image_bytes) {
  return samples * (image_bytes + sizeof(std::int32_t));
}

}  // namespace

void BatchMemory::add_memory(MemoryNeeds& needs, std::size_t samples, std::size_t image_bytes) {
  needs.add(MemoryCategory::input, batch_bytes(samples, image_bytes));
}

BatchMemory::BatchMemory(Device& device, std::size_t samples, std::size_t image_bytes,
                         FilledBy filled_by)
    : device_(device), labels_offset_(samples * image_bytes) {
  const std::size_t bytes = batch_bytes(samples, image_bytes);
  memory_ = device.allocate(bytes, MemoryCategory::input);
  const bool stages = filled_by == FilledBy::host && !device.is_host_accessible();
  if (stages) staging_ = device.allocate_staging(bytes);
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
  if (needs_upload()) device_.copy(stream, memory_.view(), from.staging_.view());
}

}  // namespace ddpbench::bench
