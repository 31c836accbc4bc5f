// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/staging_memory.h"

#include <algorithm>
#include <bit>

#include "kernels/runtime/cuda/cuda_calls.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench::comm {

namespace {

constexpr std::size_t kLeastBlockBytes = 4096;

// Memory that other processes can map and that this process's GPUs copy by themselves.
class LockedSharedMemory final : public Allocation {
 public:
  explicit LockedSharedMemory(std::size_t bytes)
      : memory_(SharedMemory::create("ddpbench-staging", bytes)) {
    const BufferView view = memory_.view();
    cuda::check(cudaHostRegister(view.data, view.bytes, cudaHostRegisterPortable),
                "locking the staging memory of a registered buffer (cudaHostRegister)");
  }
  ~LockedSharedMemory() override { static_cast<void>(cudaHostUnregister(memory_.view().data)); }
  LockedSharedMemory(const LockedSharedMemory&) = delete;
  LockedSharedMemory& operator=(const LockedSharedMemory&) = delete;

  BufferView view() const noexcept override { return memory_.view(); }
  std::string export_handle() const override { return memory_.handle(); }

 private:
  SharedMemory memory_;
};

bool same(BufferView a, BufferView b) { return a.data == b.data && a.bytes == b.bytes; }

}  // namespace

const Buffer& StagingMemory::add(BufferView on_device) {
  Buffer on_host;
  if (on_device.bytes > 0) on_host = Buffer(std::make_unique<LockedSharedMemory>(on_device.bytes));
  registered_.push_back({on_device, std::move(on_host)});
  return registered_.back().on_host;
}

const Buffer& StagingMemory::find(BufferView on_device) const {
  for (const Registered& registered : registered_) {
    if (same(registered.on_device, on_device)) return registered.on_host;
  }
  throw CommError(fmt::format("a buffer of {} bytes was not registered and cannot be deregistered",
                              on_device.bytes));
}

void StagingMemory::remove(BufferView on_device) {
  std::erase_if(registered_, [&](const Registered& r) { return same(r.on_device, on_device); });
}

void* StagingMemory::place_for(const Elements& elements) {
  if (elements.bytes() == 0) return nullptr;
  for (const Registered& registered : registered_) {
    if (!registered.on_device.contains(elements.view())) continue;
    return registered.on_host.data() + (elements.view().data - registered.on_device.data);
  }
  return borrow(elements.bytes());
}

// Takes the smallest block that is free and large enough.
std::byte* StagingMemory::borrow(std::size_t bytes) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (block.borrowed || block.memory.bytes() < bytes) continue;
    if (best == nullptr || block.memory.bytes() < best->memory.bytes()) best = &block;
  }
  if (best == nullptr) {
    const std::size_t rounded = std::bit_ceil(std::max(bytes, kLeastBlockBytes));
    best = &blocks_.emplace_back(Block{.memory = device_.allocate_staging(rounded)});
  }
  best->borrowed = true;
  return best->memory.data();
}

void StagingMemory::give_back() noexcept {
  for (Block& block : blocks_) block.borrowed = false;
}

}  // namespace ddpbench::comm
