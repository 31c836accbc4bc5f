// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives. Both ranks post their transfer at once. The sender says before it what it
// sends, and the receiver says when it has taken it: what these notices announce is there, or on
// its way.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "parallel/comm/wire/wire_engine.h"

namespace ddpbench::comm {

namespace {

// Transfers of unequal messages do not meet.
Slot message_slot(std::uint64_t number, const Elements& elements) {
  constexpr int kMessage = 3 << 12;
  return {number, kMessage, elements.count << 3 ^ static_cast<std::uint64_t>(elements.type), false};
}

}  // namespace

void WireEngine::start_message(std::shared_ptr<QueuedWork> work, Deadline deadline) {
  const Operation& o = work->operation();
  const auto peer = static_cast<std::size_t>(o.root);
  const bool is_send = o.kind == OperationKind::send;
  const Elements& part = o.part();
  const std::uint64_t number = is_send ? ++sent_[peer] : ++received_[peer];
  work->begin();
  Message message{std::move(work), number, deadline};
  const bool moves = o.root != board_.rank() && part.bytes() > 0;
  if (is_send) announce(o, number);
  if (moves && !is_send) taken_[peer].add_message(part.bytes());
  try {
    if (moves) {
      const Slot slot = message_slot(number, part);
      message.transfer = is_send ? link_->send(o.root, slot, part.data, part.bytes())
                                 : link_->recv(o.root, slot, part.data, part.bytes());
    }
  } catch (const LostPeer& lost) {
    messages_.push_back(std::move(message));  // fails with the others
    fail_for(lost.peer, &o);
  }
  messages_.push_back(std::move(message));
}

// Before the data, because they share a connection: behind it the notice would come when all of the
// data has, and the receiver would take the whole transfer for waiting.
void WireEngine::announce(const Operation& send, std::uint64_t number) {
  Notice notice;
  notice.kind = NoticeKind::message;
  notice.number = number;
  notice.count = send.part().count;
  notice.type = send.part().type;
  send.root == board_.rank() ? hear(send.root, notice) : link_->tell(send.root, notice);
}

void WireEngine::advance_messages() {
  if (messages_.empty()) return;
  if (link_) link_->poll();
  bool progressed = true;
  while (progressed) {  // a message to itself may wait for a later one
    progressed = false;
    for (Message& message : messages_) {
      if (!message.work->finished()) progressed = advance(message) || progressed;
    }
    std::erase_if(messages_, [](const Message& m) { return m.work->finished(); });
  }
}

bool WireEngine::advance(Message& message) {
  const Operation& o = message.work->operation();
  const auto peer = static_cast<std::size_t>(o.root);
  if (o.kind == OperationKind::send) {
    {
      const std::lock_guard lock(peer_messages_mutex_);
      if (peer_messages_[peer].taken < message.number) return false;
    }
    finish_transfer(message);
    message.work->complete(false);
    return true;
  }
  Notice sent;
  {
    const std::lock_guard lock(peer_messages_mutex_);
    std::deque<Notice>& sends = peer_messages_[peer].sends;
    if (sends.empty() || sends.front().number != message.number) return false;
    sent = sends.front();
    sends.pop_front();
  }
  message.work->peers_arrived();
  if (sent.count != o.out.count || sent.type != o.out.type) {
    throw CommError(
        fmt::format("{}the message has {} {}, but {} {} are expected", board_.prefix(&o),
                    sent.count, to_string(sent.type), o.out.count, to_string(o.out.type)),
        operation_name(&o));
  }
  if (o.root == board_.rank()) {
    copy_own(message);
  } else {
    finish_transfer(message);
  }
  Notice taken;
  taken.kind = NoticeKind::taken;
  taken.number = message.number;
  o.root == board_.rank() ? hear(o.root, taken) : link_->tell(o.root, taken);
  message.work->complete();
  return true;
}

// From this rank to itself.
void WireEngine::copy_own(const Message& recv) {
  const Elements& out = recv.work->operation().out;
  for (const Message& message : messages_) {
    const Operation& o = message.work->operation();
    const bool is_it = o.kind == OperationKind::send && o.root == board_.rank() &&
                       message.number == recv.number && !message.work->finished();
    if (is_it && out.bytes() > 0) std::memmove(out.data, o.in.data, out.bytes());
  }
}

// The peer has done its part, so the data is on its way.
void WireEngine::finish_transfer(Message& message) {
  if (!message.transfer) return;
  const Operation& o = message.work->operation();
  try {
    while (!link_->wait(*message.transfer)) {
      link_->poll();
      board_.check(&o);
      if (!has_passed(message.deadline)) continue;
      throw LateTransfer(board_.prefix(&o) + "deadline passed while the data was on its way",
                         operation_name(&o));
    }
  } catch (const LostPeer& lost) {
    fail_for(lost.peer, &o);
  }
  message.transfer = {};
}

void WireEngine::await(const Operation* operation, Deadline deadline, Waiter waiter,
                       PredicateRef done) {
  if (link_) link_->prepare(waiter);
  while (true) {
    const std::uint32_t seen = bell_.load(std::memory_order_seq_cst);
    advance_messages();
    if (done()) return;
    board_.check(operation);
    for (const Message& message : messages_) {
      const Operation& o = message.work->operation();
      if (board_.is_gone(o.root)) board_.throw_gone(o.root, operation ? operation : &o);
    }
    if (has_passed(deadline)) {
      throw CommTimeout(
          fmt::format("{}deadline passed while waiting for {}", board_.prefix(operation),
                      operation ? fmt::format("rank {}", operation->root) : "a message"),
          operation_name(operation));
    }
    link_ ? link_->doze(bell_, seen, deadline)
          : futex_wait(bell_, seen, deadline, FutexScope::process);
  }
}

std::optional<Deadline> WireEngine::earliest_message_deadline() const {
  std::optional<Deadline> earliest;
  for (const Message& message : messages_) {
    if (message.work->start() != Start::now) continue;
    earliest = std::min(earliest.value_or(message.deadline), message.deadline);
  }
  return earliest;
}

std::vector<std::shared_ptr<QueuedWork>> WireEngine::take_messages() {
  std::vector<std::shared_ptr<QueuedWork>> works;
  for (Message& message : messages_) {
    if (!message.work->finished()) works.push_back(std::move(message.work));
  }
  messages_.clear();
  return works;
}

}  // namespace ddpbench::comm
