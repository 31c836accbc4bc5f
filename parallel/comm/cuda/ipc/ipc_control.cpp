// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See ring_control.h. A cache line for the abort word, the offers, then the flags.
#include "parallel/comm/cuda/ipc/ipc_control.h"

#include "kernels/runtime/cuda/cuda_error.h"
#include "parallel/comm/cuda/ipc/ipc_plan.h"
#include "parallel/comm/shm/control_block.h"

namespace ddpbench::comm {

namespace {

std::size_t pairs(int size) {
  return static_cast<std::size_t>(kRingSets) * static_cast<std::size_t>(size) *
         static_cast<std::size_t>(size);
}

std::size_t flags_offset(int size) { return kCacheLineBytes + pairs(size) * sizeof(std::uint64_t); }

std::size_t bytes_for(int size) { return flags_offset(size) + pairs(size) * sizeof(std::uint32_t); }

}  // namespace

RingControl::RingControl(SharedMemory memory, int size) : memory_(std::move(memory)), size_(size) {
  const BufferView view = memory_.view();
  if (view.bytes < bytes_for(size)) {
    throw CommError(
        fmt::format("the ring's control memory has {} bytes, not {}", view.bytes, bytes_for(size)));
  }
  // Portable: threads that drive other GPUs use it, too.
  cuda::check(
      cudaHostRegister(view.data, view.bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
      "locking the ring's control memory (cudaHostRegister)");
  void* address = nullptr;
  const cudaError_t status = cudaHostGetDevicePointer(&address, view.data, 0);
  if (status != cudaSuccess) static_cast<void>(cudaHostUnregister(view.data));
  cuda::check(status, "cudaHostGetDevicePointer");
  device_ = reinterpret_cast<std::uintptr_t>(address);
}

RingControl::~RingControl() { static_cast<void>(cudaHostUnregister(memory_.view().data)); }

std::shared_ptr<RingControl> RingControl::create(const std::string& name, int size) {
  return std::shared_ptr<RingControl>(
      new RingControl(SharedMemory::create("ddpbench-ring-" + name, bytes_for(size)), size));
}

std::shared_ptr<RingControl> RingControl::open(const std::string& handle, int size) {
  return std::shared_ptr<RingControl>(new RingControl(SharedMemory::open(handle), size));
}

std::size_t RingControl::number(int set, int from, int to) const noexcept {
  return static_cast<std::size_t>((set * size_ + from) * size_ + to);
}

std::uint32_t& RingControl::aborted() const noexcept {
  return *reinterpret_cast<std::uint32_t*>(memory_.view().data);
}

std::uint32_t& RingControl::flag(int set, int from, int to) const noexcept {
  return reinterpret_cast<std::uint32_t*>(memory_.view().data +
                                          flags_offset(size_))[number(set, from, to)];
}

std::uint64_t RingControl::device_flag(int set, int from, int to) const noexcept {
  return device_ + flags_offset(size_) + number(set, from, to) * sizeof(std::uint32_t);
}

std::uint64_t RingControl::device_offer(int set, int from, int to) const noexcept {
  return device_ + kCacheLineBytes + number(set, from, to) * sizeof(std::uint64_t);
}

}  // namespace ddpbench::comm
