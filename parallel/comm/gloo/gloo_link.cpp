// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/gloo/gloo_link.h"

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/comm/gloo/gloo_meeting.h"
#include "parallel/comm/gloo/loop_calls.h"

namespace ddpbench::comm {

namespace {

using std::chrono::milliseconds;

// How often the clock thread looks for waits to interrupt, and how long a wait for a transfer of
// the engine lasts at least.
constexpr milliseconds kTick{5};
constexpr double kLook_s = 5e-3;
constexpr milliseconds kForever = std::chrono::hours(24 * 365);
// How long notices may take to leave when the communicator ends, or when too many are under way.
constexpr double kFarewell_s = 1;
// Notices that may be under way to a peer before a rank waits for the oldest.
constexpr std::size_t kNoticesUnderWay = 256;
constexpr std::uint64_t kNoticeSlot = 1;

// SplitMix64 (Steele, Lea and Flood, 2014).
std::uint64_t mixed(const Slot& slot) {
  std::uint64_t z = 0;
  for (const std::uint64_t value :
       {slot.number, static_cast<std::uint64_t>(slot.step), slot.call}) {
    z += value + 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    z ^= z >> 31;
  }
  return z;
}

}  // namespace

// Destroying the buffer gives the transfer up: Gloo then does not touch the memory any more.
class GlooLink::Moving final : public Transfer {
 public:
  using Buffer = gloo::transport::UnboundBuffer;

  Moving(int peer, bool is_send, std::unique_ptr<Buffer> buffer)
      : Transfer(peer), is_send_(is_send), buffer_(*buffer), post_(std::make_shared<Post>()) {
    post_->buffer = std::move(buffer);
  }
  ~Moving() override {
    std::unique_ptr<Buffer> given_up;
    const std::lock_guard lock(post_->mutex);
    given_up = std::move(post_->buffer);
  }
  // What posts it. It may outlive the transfer.
  std::function<void()> poster(std::uint64_t slot, std::size_t bytes) const {
    return [post = post_, peer = peer(), is_send = is_send_, slot, bytes] {
      const std::lock_guard lock(post->mutex);
      if (!post->buffer) return;
      try {
        is_send ? post->buffer->send(peer, slot, 0, bytes)
                : post->buffer->recv(peer, slot, 0, bytes);
      } catch (const std::exception&) {
        post->failed.store(true, std::memory_order_seq_cst);
        interrupt(*post->buffer, is_send);
      }
    };
  }
  // False when interrupted. Throws LostPeer. It has no time limit: when a wait of Gloo's times out,
  // it closes the connections to all peers. It holds a connection's lock meanwhile and waits for
  // Gloo's thread, which may wait for that lock to post a transfer.
  bool wait() const {
    bool done = false;
    try {
      done = is_send_ ? buffer_.waitSend(kForever) : buffer_.waitRecv(kForever);
    } catch (const std::exception&) {
      throw LostPeer{peer()};
    }
    if (!done && post_->failed.load(std::memory_order_seq_cst)) throw LostPeer{peer()};
    return done;
  }
  void interrupt() const { interrupt(buffer_, is_send_); }

 private:
  struct Post {
    std::mutex mutex;
    std::unique_ptr<Buffer> buffer;  // null when given up
    std::atomic<bool> failed = false;
  };

  static void interrupt(Buffer& buffer, bool is_send) {
    is_send ? buffer.abortWaitSend() : buffer.abortWaitRecv();
  }

  const bool is_send_;
  Buffer& buffer_;
  const std::shared_ptr<Post> post_;
};

// A wait that the clock thread interrupts when its time has come.
class GlooLink::Awaited {
 public:
  Awaited(GlooLink& link, const Moving& moving, double until_s)
      : link_(link), moving_(moving), until_s_(until_s) {
    const std::lock_guard lock(link_.clock_mutex_);
    link_.awaited_.push_back(this);
    if (link_.clock_ends_) moving_.interrupt();
  }
  ~Awaited() {
    const std::lock_guard lock(link_.clock_mutex_);
    std::erase(link_.awaited_, this);
  }
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;
  void interrupt_if_due(double now_s) const {
    if (now_s >= until_s_) moving_.interrupt();
  }

 private:
  GlooLink& link_;
  const Moving& moving_;
  const double until_s_;
};

// A notice on its way. Gloo reads it until it is sent.
struct GlooLink::Sent {
  Notice notice;
  std::unique_ptr<Moving> moving;
};

// Gloo sends nothing to who does not receive. So several receives are posted at any time: what a
// rank says last must reach peers that are stopped just then.
struct GlooLink::Mail {
  struct Place {
    Notice heard;
    std::unique_ptr<Moving> moving;
  };
  std::array<Place, 8> places;     // in turn
  std::atomic<bool> lost = false;  // the connection has ended
  std::mutex mutex;
  std::deque<std::unique_ptr<Sent>> sent;
  std::size_t under_way_at_most = kNoticesUnderWay;
};

GlooLink::GlooLink(Store& store, int rank, int size, const EngineOptions& options)
    : rank_(rank), size_(size) {
  // Gloo writes to connections that a peer has closed. That is an error there, and no reason to
  // end.
  ::signal(SIGPIPE, SIG_IGN);
  const GlooRanks ranks = connect_ranks(store, rank, size, options);
  context_ = ranks.context;
  loop_calls_ = std::make_unique<LoopCalls>(ranks.device);
  clock_thread_ = std::thread([this] { tick(); });
}

GlooLink::~GlooLink() {
  stop();
  mail_.clear();
  // Calls that Gloo's thread has not made find no buffer any more, and so need no connections.
  if (loop_calls_) loop_calls_->keep_awake();
  context_.reset();
  loop_calls_.reset();
}

std::unique_ptr<GlooLink::Moving> GlooLink::start(int peer, std::uint64_t slot, void* data,
                                                  std::size_t bytes, bool is_send) {
  auto moving = std::make_unique<Moving>(peer, is_send, context_->createUnboundBuffer(data, bytes));
  loop_calls_->add(moving->poster(slot, bytes));
  return moving;
}

std::unique_ptr<WireLink::Transfer> GlooLink::send(int peer, const Slot& slot, const void* data,
                                                   std::size_t bytes) {
  return start(peer, mixed(slot), const_cast<void*>(data), bytes, true);
}

std::unique_ptr<WireLink::Transfer> GlooLink::recv(int peer, const Slot& slot, void* data,
                                                   std::size_t bytes) {
  return start(peer, mixed(slot), data, bytes, false);
}

bool GlooLink::wait(Transfer& transfer) {
  return wait_until(static_cast<Moving&>(transfer), steady_s() + kLook_s);
}

bool GlooLink::wait_until(const Moving& moving, double until_s) {
  const Awaited awaited(*this, moving, until_s);
  return moving.wait();
}

void GlooLink::tick() {
  std::unique_lock lock(clock_mutex_);
  while (!clock_ends_) {
    clock_.wait_for(lock, kTick);
    const double now_s = steady_s();
    for (const Awaited* const awaited : awaited_) awaited->interrupt_if_due(now_s);
  }
}

void GlooLink::listen(std::function<void(int, const Notice&)> hear, std::function<void(int)> lose) {
  for (int peer = 0; peer < size_; ++peer) mail_.push_back(std::make_unique<Mail>());
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    listeners_.emplace_back([this, peer, hear, lose] {
      try {
        hear_peer(peer, hear);
        return;
      } catch (const std::exception&) {
      } catch (const LostPeer&) {
      }
      mail_[static_cast<std::size_t>(peer)]->lost.store(true, std::memory_order_seq_cst);
      lose(peer);
    });
  }
}

void GlooLink::hear_peer(int peer, const std::function<void(int, const Notice&)>& hear) {
  Mail& mail = *mail_[static_cast<std::size_t>(peer)];
  const auto post = [&](Mail::Place& place) {
    auto moving = start(peer, kNoticeSlot, &place.heard, sizeof(Notice), false);
    const std::lock_guard lock(mail.mutex);
    place.moving = std::move(moving);
  };
  for (Mail::Place& place : mail.places) post(place);
  for (std::size_t i = 0; !stopping_.load(std::memory_order_seq_cst);) {
    Mail::Place& place = mail.places[i];
    if (!place.moving->wait()) continue;
    const Notice notice = place.heard;
    i = (i + 1) % mail.places.size();
    post(place);  // fails in its turn: notices that have come before are heard all the same
    hear(peer, notice);
  }
}

void GlooLink::tell(int peer, const Notice& notice) noexcept {
  if (peer == rank_ || mail_.empty()) return;
  Mail& mail = *mail_[static_cast<std::size_t>(peer)];
  if (mail.lost.load(std::memory_order_seq_cst)) return;
  try {
    const std::lock_guard lock(mail.mutex);
    auto sent = std::make_unique<Sent>();
    sent->notice = notice;
    sent->moving = start(peer, kNoticeSlot, &sent->notice, sizeof(Notice), true);
    mail.sent.push_back(std::move(sent));
    if (mail.sent.size() <= mail.under_way_at_most) return;
    // The oldest was read long ago, or the peer is stopped, or the network is slow.
    if (wait_until(*mail.sent.front()->moving, steady_s() + kFarewell_s)) {
      mail.sent.pop_front();
    } else {
      mail.under_way_at_most *= 2;  // the next notices do not wait for a second each
    }
  } catch (const LostPeer&) {
    mail.lost.store(true, std::memory_order_seq_cst);
  } catch (const std::exception&) {
  }
}

void GlooLink::await_notices() noexcept {
  const double until_s = steady_s() + kFarewell_s;
  for (const auto& mail : mail_) {
    const std::lock_guard lock(mail->mutex);
    if (mail->sent.empty() || mail->lost.load(std::memory_order_seq_cst)) continue;
    try {
      wait_until(*mail->sent.back()->moving, until_s);
    } catch (const LostPeer&) {
      continue;
    } catch (const std::exception&) {
      continue;
    }
  }
}

void GlooLink::stop() noexcept {
  if (stopping_.exchange(true)) return;
  await_notices();
  for (const auto& mail : mail_) {
    const std::lock_guard lock(mail->mutex);
    for (const Mail::Place& place : mail->places) {
      if (place.moving) place.moving->interrupt();
    }
  }
  for (std::thread& listener : listeners_) listener.join();
  {
    const std::lock_guard lock(clock_mutex_);
    clock_ends_ = true;
  }
  clock_.notify_all();
  clock_thread_.join();
}

}  // namespace ddpbench::comm
