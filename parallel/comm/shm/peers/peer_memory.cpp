// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Layout of the control block: header, slots, channels, mailboxes, staging areas, channel staging.
// Zeroed memory is its initial state, and pages of parts that are never used are never allocated.
#include "parallel/comm/shm/peers/peer_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"

namespace ddpbench::comm {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

struct Layout {
  std::size_t slots, channels, mailboxes, staging, channel_staging, end;
};

Layout layout_of(int size) {
  const std::size_t ranks = index(size);
  Layout at{};
  at.slots = sizeof(ControlHeader);
  at.channels = at.slots + ranks * sizeof(RankSlot);
  at.mailboxes = at.channels + ranks * ranks * sizeof(Channel);
  at.staging = at.mailboxes + ranks * kHistory * kMailboxBytes;
  at.channel_staging = at.staging + ranks * kStagingBytes;
  at.end = at.channel_staging + ranks * ranks * kChannelPackets * kChannelPacketBytes;
  return at;
}

}  // namespace

ControlBlock::ControlBlock(SharedMemory memory, int size, FutexScope scope)
    : memory_(std::move(memory)), size_(size), scope_(scope) {}

std::shared_ptr<ControlBlock> ControlBlock::create(const std::string& name, int size,
                                                   FutexScope scope) {
  SharedMemory memory = SharedMemory::create("ddpbench-" + name, layout_of(size).end);
  std::shared_ptr<ControlBlock> block(new ControlBlock(std::move(memory), size, scope));
  block->header().size = size;
  return block;
}

std::shared_ptr<ControlBlock> ControlBlock::open(const std::string& handle, int size) {
  SharedMemory memory = SharedMemory::open(handle);
  if (memory.view().bytes != layout_of(size).end) {
    throw CommError(fmt::format("communicator memory {} is not that of {} ranks", handle, size));
  }
  return std::shared_ptr<ControlBlock>(new ControlBlock(std::move(memory), size, FutexScope::host));
}

RankSlot& ControlBlock::slot(int rank) const noexcept {
  return reinterpret_cast<RankSlot*>(base() + layout_of(size_).slots)[rank];
}

Channel& ControlBlock::channel(int from, int to) const noexcept {
  return reinterpret_cast<Channel*>(base() + layout_of(size_).channels)[from * size_ + to];
}

std::byte* ControlBlock::mailbox(int rank, std::uint64_t collective) const noexcept {
  const std::size_t number = index(rank) * kHistory + collective % kHistory;
  return base() + layout_of(size_).mailboxes + number * kMailboxBytes;
}

std::byte* ControlBlock::staging(int rank) const noexcept {
  return base() + layout_of(size_).staging + index(rank) * kStagingBytes;
}

std::byte* ControlBlock::channel_staging(int from, int to) const noexcept {
  const std::size_t number = index(from) * index(size_) + index(to);
  return base() + layout_of(size_).channel_staging + number * kChannelPackets * kChannelPacketBytes;
}

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
