// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Send and receive take 1 step: the receiver reads the sender's memory, or a copy of it.
#include "parallel/comm/shm/message_transfers.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace ddpbench::comm {

namespace {

// Sequentially consistent, for the last look before sleeping (PeerGroup::publish).
std::uint64_t read(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_seq_cst);
}

}  // namespace

MessageTransfers::MessageTransfers(PeerGroup& peers, PeerMemory& memory, WriteTuners& tuners,
                                   std::span<PeerTraffic> traffic, EmulatedLink& link)
    : peers_(peers),
      memory_(memory),
      tuners_(tuners),
      traffic_(traffic),
      link_(link),
      sent_(static_cast<std::size_t>(peers.size())),
      received_(sent_) {}

void MessageTransfers::start(std::shared_ptr<QueuedWork> work) {
  const Operation& o = work->operation();
  const auto peer = static_cast<std::size_t>(o.root);
  const bool is_send = o.kind == OperationKind::send;
  const std::uint64_t number = is_send ? ++sent_[peer] : ++received_[peer];
  if (!is_send) {
    peers_.block().channel(o.root, peers_.rank()).wanted.store(number, std::memory_order_release);
  }
  work->begin();
  transfers_.push_back({std::move(work), number});
}

bool MessageTransfers::advance() {
  bool progressed = false;
  for (Transfer& transfer : transfers_) progressed = advance(transfer) || progressed;
  if (progressed) {
    std::erase_if(transfers_, [](const Transfer& t) { return t.work->finished(); });
  }
  return progressed;
}

bool MessageTransfers::needs(int peer) const {
  return std::any_of(transfers_.begin(), transfers_.end(), [&](const Transfer& t) {
    return t.work->operation().root == peer && !t.work->finished();
  });
}

double MessageTransfers::wake_s() const {
  double first_s = std::numeric_limits<double>::infinity();
  for (const Transfer& one : transfers_) {
    if (one.arrival_s > 0) first_s = std::min(first_s, one.arrival_s);
  }
  return first_s;
}

bool MessageTransfers::advance(Transfer& transfer) {
  const Operation& o = transfer.work->operation();
  if (o.kind == OperationKind::send) {
    return advance_send(transfer, peers_.block().channel(peers_.rank(), o.root));
  }
  return advance_recv(transfer, peers_.block().channel(o.root, peers_.rank()));
}

bool MessageTransfers::advance_send(Transfer& transfer, Channel& channel) {
  const Operation& o = transfer.work->operation();
  bool progressed = false;
  if (!transfer.posted) {
    if (read(channel.taken) != transfer.number - 1) return false;  // the one before is in flight
    const MemoryLocation location = memory_.expose(o.in, channel.copy);
    channel.message = {o.kind, o.in.type, o.op, o.root, o.in.count, location};
    peers_.publish(channel.posted, transfer.number);
    transfer.posted = progressed = true;
  }
  if (read(channel.wanted) >= transfer.number) transfer.work->peers_arrived();
  if (read(channel.taken) < transfer.number) return progressed;
  if (o.root != peers_.rank())
    traffic_[static_cast<std::size_t>(o.root)].sent.add_message(o.in.bytes());
  transfer.work->complete();
  return true;
}

bool MessageTransfers::advance_recv(Transfer& transfer, Channel& channel) {
  const Operation& o = transfer.work->operation();
  if (read(channel.posted) < transfer.number) return false;
  // Another recv of the same channel may come before this one.
  if (read(channel.taken) != transfer.number - 1) return false;
  if (transfer.arrival_s == 0) {
    check_matches(o, channel.message);
    transfer.work->peers_arrived();
    if (o.out.bytes() > 0) copy_message(o, channel);
    transfer.arrival_s = link_.arrival_s(o.root, o.out);
  }
  if (steady_s() < transfer.arrival_s) return false;
  if (o.root != peers_.rank())
    traffic_[static_cast<std::size_t>(o.root)].taken.add_message(o.out.bytes());
  peers_.publish(channel.taken, transfer.number);
  transfer.work->complete();
  return true;
}

void MessageTransfers::copy_message(const Operation& recv, const Channel& channel) {
  const std::size_t bytes = recv.out.bytes();
  const std::byte* const source = memory_.resolve(recv.root, channel.message.memory, bytes,
                                                  peers_.block().slot(recv.root), channel.copy);
  WriteTuner& tuner = tuners_.of(recv.kind, bytes);
  const WriteMode mode = tuner.begin_operation();
  const double begin_s = steady_s();
  copy_bytes(recv.out.data, source, bytes, mode);
  if (!tuner.wants_record()) return;
  tuner.record(bytes, steady_s() - begin_s);
}

void MessageTransfers::check_matches(const Operation& recv, const Descriptor& message) const {
  if (message.count == recv.out.count && message.type == recv.out.type) return;
  throw CommError(
      fmt::format("{}the message has {} {}, but {} {} are expected", peers_.prefix(&recv),
                  message.count, to_string(message.type), recv.out.count, to_string(recv.out.type)),
      operation_name(&recv));
}

}  // namespace ddpbench::comm
