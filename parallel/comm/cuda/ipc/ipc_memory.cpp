// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/ipc/ipc_memory.h"

#include <algorithm>

#include "kernels/runtime/cuda/cuda_error.h"

namespace ddpbench::comm {

IpcMemory::IpcMemory(Device& device, int rank, int size, bool threads)
    : rank_(rank),
      size_(size),
      threads_(threads),
      table_(device.allocate_staging(static_cast<std::size_t>(size) * kIpcRegistrations *
                                     sizeof(std::uint64_t))),
      registrations_(kIpcRegistrations) {
  void* address = nullptr;
  cuda::check(cudaHostGetDevicePointer(&address, table_.data(), 0), "cudaHostGetDevicePointer");
  bases_ = static_cast<const std::uint64_t*>(address);
}

std::uint64_t& IpcMemory::base(int peer, std::size_t number) const {
  return table_.view()
      .as<std::uint64_t>()[static_cast<std::size_t>(peer) * kIpcRegistrations + number];
}

std::optional<std::size_t> IpcMemory::find(BufferView memory) const {
  for (std::size_t number = 0; number < registrations_.size(); ++number) {
    if (registrations_[number] && registrations_[number]->own.contains(memory)) return number;
  }
  return std::nullopt;
}

bool IpcMemory::is_readable(const Elements& elements) const {
  return threads_ || size_ == 1 || find(elements.view()).has_value();
}

std::uint64_t IpcMemory::offer(const Elements& elements) const {
  const auto address = reinterpret_cast<std::uintptr_t>(elements.data);
  if (threads_) {
    ensure(address >> kOfferBits == 0, "device memory at {:#x}, beyond the 48 bits of an offer",
           address);
    return offer_of_address(address);
  }
  if (size_ == 1) return kOfferNothing;  // there is no peer
  // All bytes are looked up, because another buffer may begin where one ends.
  const auto found = find(elements.view());
  ensure(found.has_value(), "rank {} offers memory that is not registered", rank_);
  const auto begin = reinterpret_cast<std::uintptr_t>(registrations_[*found]->own.data);
  return offer_of(static_cast<int>(*found), address - begin);
}

void IpcMemory::add(BufferView own, const std::vector<std::string>& handles) {
  // The lowest free number is the same on all ranks.
  const auto free = std::find_if(registrations_.begin(), registrations_.end(),
                                 [](const auto& r) { return !r.has_value(); });
  if (free == registrations_.end()) {
    throw CommError(fmt::format("rank {} of {}: {} buffers are registered, and no more can be",
                                rank_, size_, kIpcRegistrations));
  }
  const auto number = static_cast<std::size_t>(free - registrations_.begin());
  Registration registration{.own = own, .peers = {}};
  for (int peer = 0; peer < size_; ++peer) {
    const std::string& handle = handles[static_cast<std::size_t>(peer)];
    registration.peers.push_back(
        peer == rank_ || handle.empty() ? nullptr : std::make_unique<cuda::ImportedMemory>(handle));
  }
  for (int peer = 0; peer < size_; ++peer) {
    const auto& mapped = registration.peers[static_cast<std::size_t>(peer)];
    base(peer, number) = mapped ? reinterpret_cast<std::uintptr_t>(mapped->view().data) : 0;
  }
  *free = std::move(registration);
}

void IpcMemory::drop(std::size_t number) {
  for (int peer = 0; peer < size_; ++peer) base(peer, number) = 0;
  registrations_[number].reset();
}

void IpcMemory::remove(BufferView own) {
  for (std::size_t number = 0; number < registrations_.size(); ++number) {
    const auto& registration = registrations_[number];
    if (!registration || registration->own.data != own.data ||
        registration->own.bytes != own.bytes) {
      continue;
    }
    return drop(number);
  }
  throw CommError(
      fmt::format("a buffer of {} bytes was not registered and cannot be deregistered", own.bytes));
}

void IpcMemory::clear() {
  for (std::size_t number = 0; number < registrations_.size(); ++number) drop(number);
}

}  // namespace ddpbench::comm
