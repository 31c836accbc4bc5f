// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/peers/peer_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"

namespace ddpbench::comm {

MemoryLocation PeerMemory::locate(const Elements& elements) const {
  const auto address = reinterpret_cast<std::uintptr_t>(elements.data);
  if (scope_ == FutexScope::process) return {MemoryLocation::kAddress, address};
  for (const Registration& registration : registrations_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(registration.own.data);
    const bool inside = address >= begin && address - begin <= registration.own.bytes &&
                        elements.bytes() <= registration.own.bytes - (address - begin);
    if (inside) return {registration.number, address - begin};
  }
  return {MemoryLocation::kStaged, 0};
}

std::byte* PeerMemory::resolve(int peer, const MemoryLocation& memory, std::size_t bytes) const {
  if (memory.buffer == MemoryLocation::kAddress) {
    if (scope_ != FutexScope::process) {
      throw CommError(fmt::format("rank {} announces an address of its own process", peer));
    }
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(memory.offset));
  }
  const auto found = std::find_if(registrations_.begin(), registrations_.end(),
                                  [&](const Registration& r) { return r.number == memory.buffer; });
  if (found == registrations_.end()) {
    throw CommError(fmt::format("rank {} uses registered buffer {}, which rank {} has deregistered",
                                peer, memory.buffer, rank_));
  }
  const BufferView mapped =
      peer == rank_ ? found->own : found->peers[static_cast<std::size_t>(peer)].view();
  if (memory.offset > mapped.bytes || bytes > mapped.bytes - memory.offset) {
    throw CommError(fmt::format("rank {} announces bytes {} to {} of a buffer of {} bytes", peer,
                                memory.offset, memory.offset + bytes, mapped.bytes));
  }
  return mapped.data + memory.offset;
}

void PeerMemory::add(BufferView own, const std::vector<std::string>& handles) {
  Registration registration{next_number_++, own, {}};
  for (std::size_t peer = 0; peer < handles.size(); ++peer) {
    const bool map = static_cast<int>(peer) != rank_ && !handles[peer].empty();
    registration.peers.push_back(map ? SharedMemory::open(handles[peer]) : SharedMemory());
  }
  registrations_.push_back(std::move(registration));
}

void PeerMemory::remove(BufferView own) {
  const auto found = std::find_if(
      registrations_.begin(), registrations_.end(),
      [&](const Registration& r) { return r.own.data == own.data && r.own.bytes == own.bytes; });
  if (found == registrations_.end()) {
    throw CommError(fmt::format(
        "a buffer of {} bytes was not registered and cannot be deregistered", own.bytes));
  }
  registrations_.erase(found);
}

namespace {

// "pid:[4026531836]"
std::string namespace_mark(const char* kind) {
  std::array<char, 64> space{};
  const std::string path = fmt::format("/proc/self/ns/{}", kind);
  const ssize_t length = ::readlink(path.c_str(), space.data(), space.size() - 1);
  return {space.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

}  // namespace

std::string host_mark() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  return fmt::format("{} {} {} uid {}", boot, namespace_mark("pid"), namespace_mark("user"),
                     ::geteuid());
}

}  // namespace ddpbench::comm
