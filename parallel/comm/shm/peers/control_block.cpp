// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Layout of the control block: header, slots, channels, mailboxes, staging areas, channel staging.
// Zeroed memory is its initial state, and pages of parts that are never used are never allocated.
#include "parallel/comm/shm/peers/control_block.h"

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

}  // namespace ddpbench::comm
