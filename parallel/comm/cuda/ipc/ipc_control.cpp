// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See ipc_control.h. A cache line for the abort word, the offers, then the flags.
#include "parallel/comm/cuda/ipc/ipc_control.h"

#include "kernels/runtime/cuda/cuda_error.h"
#include "parallel/comm/cuda/ipc/ipc_plan.h"
#include "parallel/comm/shm/peers/control_block.h"

namespace ddpbench::comm {

namespace {

std::size_t pairs(int size) {
  return static_cast<std::size_t>(kIpcSets) * static_cast<std::size_t>(size) *
         static_cast<std::size_t>(size);
}

std::size_t flags_offset(int size) { return kCacheLineBytes + pairs(size) * sizeof(std::uint64_t); }

std::size_t bytes_for(int size) { return flags_offset(size) + pairs(size) * sizeof(std::uint32_t); }

}  // namespace

IpcControl::IpcControl(SharedMemory memory, int size) : memory_(std::move(memory)), size_(size) {
  const BufferView view = memory_.view();
  if (view.bytes < bytes_for(size)) {
    throw CommError(
        fmt::format("the control memory of ipc has {} bytes, not {}", view.bytes, bytes_for(size)));
  }
  // Portable: threads that drive other GPUs use it, too.
  cuda::check(
      cudaHostRegister(view.data, view.bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
      "locking the control memory of ipc (cudaHostRegister)");
  void* address = nullptr;
  const cudaError_t status = cudaHostGetDevicePointer(&address, view.data, 0);
  if (status != cudaSuccess) static_cast<void>(cudaHostUnregister(view.data));
  cuda::check(status, "cudaHostGetDevicePointer");
  device_ = reinterpret_cast<std::uintptr_t>(address);
}

IpcControl::~IpcControl() { static_cast<void>(cudaHostUnregister(memory_.view().data)); }

std::shared_ptr<IpcControl> IpcControl::create(const std::string& name, int size) {
  return std::shared_ptr<IpcControl>(
      new IpcControl(SharedMemory::create("ddpbench-ipc-" + name, bytes_for(size)), size));
}

std::shared_ptr<IpcControl> IpcControl::open(const std::string& handle, int size) {
  return std::shared_ptr<IpcControl>(new IpcControl(SharedMemory::open(handle), size));
}

std::size_t IpcControl::number(int set, int from, int to) const noexcept {
  return static_cast<std::size_t>((set * size_ + from) * size_ + to);
}

std::uint32_t& IpcControl::aborted() const noexcept {
  return *reinterpret_cast<std::uint32_t*>(memory_.view().data);
}

std::uint32_t& IpcControl::flag(int set, int from, int to) const noexcept {
  return reinterpret_cast<std::uint32_t*>(memory_.view().data +
                                          flags_offset(size_))[number(set, from, to)];
}

std::uint64_t IpcControl::device_flag(int set, int from, int to) const noexcept {
  return device_ + flags_offset(size_) + number(set, from, to) * sizeof(std::uint32_t);
}

std::uint64_t IpcControl::device_offer(int set, int from, int to) const noexcept {
  return device_ + kCacheLineBytes + number(set, from, to) * sizeof(std::uint64_t);
}

}  // namespace ddpbench::comm
