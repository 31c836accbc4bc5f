// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Layout of the control block: header, slots, channels, mailboxes. Zeroed
// memory is its initial state, and pages of parts that are never used are never allocated.
#include "parallel/comm/shm/peers/peer_memory.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace ddpbench::comm {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

struct Layout {
  std::size_t slots, channels, mailboxes, end;
};

Layout layout_of(int size) {
  const std::size_t ranks = index(size);
  Layout at{};
  at.slots = sizeof(ControlHeader);
  at.channels = at.slots + ranks * sizeof(RankSlot);
  at.mailboxes = at.channels + ranks * ranks * sizeof(Channel);
  at.end = at.mailboxes + ranks * kHistory * kMailboxBytes;
  return at;
}

// "pid:[4026531836]"
std::string namespace_mark(const char* kind) {
  std::array<char, 64> space{};
  const std::string path = fmt::format("/proc/self/ns/{}", kind);
  const ssize_t length = ::readlink(path.c_str(), space.data(), space.size() - 1);
  return {space.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
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

MemoryLocation PeerMemory::locate(const Elements& elements) const {
  if (scope_ == FutexScope::process) {
    return {MemoryLocation::kAddress, reinterpret_cast<std::uintptr_t>(elements.data)};
  }
  for (const auto& [number, own] : registered_) {
    if (!own.contains(elements.view())) continue;
    return {number, static_cast<std::uint64_t>(elements.view().data - own.data)};
  }
  return {MemoryLocation::kCopied, 0};
}

void PeerMemory::offer(SharedPlace& place, const std::string& handle) {
  ensure(handle.size() < place.handle.size(), "the handle '{}' is too long", handle);
  place.handle = {};
  std::ranges::copy(handle, place.handle.begin());
  ++place.version;
}

MemoryLocation PeerMemory::expose(const Elements& elements, SharedPlace& place) {
  const MemoryLocation location = locate(elements);
  const std::size_t bytes = elements.bytes();
  if (location.buffer != MemoryLocation::kCopied || bytes == 0) return location;
  Mapping& copy = mapped_[&place];
  if (copy.memory.view().bytes < bytes) {
    copy.memory = SharedMemory::create("ddpbench-copy", std::bit_ceil(bytes));
    offer(place, copy.memory.handle());
    copy.version = place.version;
  }
  std::memcpy(copy.memory.view().data, elements.data, bytes);
  return location;
}

std::byte* PeerMemory::resolve(int peer, const MemoryLocation& memory, std::size_t bytes,
                               const RankSlot& theirs, const SharedPlace& copy) {
  if (memory.buffer == MemoryLocation::kAddress) {
    if (scope_ != FutexScope::process) {
      throw CommError(fmt::format("rank {} announces an address of its own process", peer));
    }
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(memory.offset));
  }
  if (bytes == 0) return nullptr;
  const bool is_copy = memory.buffer == MemoryLocation::kCopied;
  if (memory.buffer < 0 || memory.buffer > static_cast<std::int64_t>(kMostRegistered)) {
    throw CommError(fmt::format("rank {} announces a buffer {}", peer, memory.buffer));
  }
  const auto view_at = [this](const SharedPlace& place) {
    Mapping& mapping = mapped_[&place];
    if (mapping.version != place.version) {
      const auto end = std::ranges::find(place.handle, '\0');
      mapping = {place.version, SharedMemory::open({place.handle.begin(), end})};
    }
    return mapping.memory.view();
  };
  const BufferView mapped =
      is_copy         ? view_at(copy)
      : peer == rank_ ? registered_[memory.buffer]
                      : view_at(theirs.registered[static_cast<std::size_t>(memory.buffer - 1)]);
  if (memory.offset > mapped.bytes || bytes > mapped.bytes - memory.offset) {
    throw CommError(fmt::format("rank {} announces bytes {} to {} of a buffer of {} bytes", peer,
                                memory.offset, memory.offset + bytes, mapped.bytes));
  }
  return mapped.data + memory.offset;
}

void PeerMemory::add(BufferView own, const std::string& handle) {
  std::int64_t number = 1;
  while (registered_.contains(number)) ++number;
  ensure(number <= static_cast<std::int64_t>(kMostRegistered), "more than {} registered buffers",
         kMostRegistered);
  registered_[number] = own;
  offer(own_.registered[static_cast<std::size_t>(number - 1)], handle);
}

void PeerMemory::remove(BufferView own) {
  const auto found = std::ranges::find_if(registered_, [&](const auto& one) {
    return one.second.data == own.data && one.second.bytes == own.bytes;
  });
  ensure(found != registered_.end(), "a buffer of {} bytes was not registered", own.bytes);
  registered_.erase(found);
}

std::string host_mark() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  return fmt::format("{} {} {} uid {}", boot, namespace_mark("pid"), namespace_mark("user"),
                     ::geteuid());
}

}  // namespace ddpbench::comm
