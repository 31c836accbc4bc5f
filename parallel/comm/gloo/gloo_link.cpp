// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/gloo/gloo_link.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "base/error.h"

namespace ddpbench::comm {

namespace {

using std::chrono::milliseconds;

// Waits are interrupted so often.
constexpr milliseconds kTick{5};
constexpr milliseconds kForever = std::chrono::hours(24 * 365);
// How long notices may take to leave when the communicator ends.
constexpr milliseconds kFarewell{1000};
// Notices that may be under way to a peer that does not read.
constexpr std::size_t kNoticesUnderWay = 256;
constexpr std::uint64_t kNoticeSlot = 1;
// The longest sleep in a wait for the store, between two calls of EngineOptions::check.
constexpr double kStoreLook_s = 0.1;

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

// Gloo's words for our store.
class Rendezvous : public gloo::rendezvous::Store {
 public:
  Rendezvous(comm::Store& store, const EngineOptions& options) : store_(store), options_(options) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(name(key), std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = await(key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) await(key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

 private:
  std::string name(const std::string& key) const { return options_.name + "/gloo/" + key; }
  std::string await(const std::string& key) {
    const Deadline deadline = deadline_after(options_.timeout_s);
    while (true) {
      try {
        return store_.get(name(key), std::min(kStoreLook_s, options_.timeout_s));
      } catch (const CommTimeout&) {
        if (has_passed(deadline)) {
          throw CommTimeout(fmt::format("rank {} did not join within {} s",
                                        key.starts_with("rank_") ? key.substr(5) : key,
                                        options_.timeout_s));
        }
      }
      if (options_.check) options_.check();
    }
  }

  comm::Store& store_;
  const EngineOptions& options_;
};

std::shared_ptr<gloo::Context> connect(comm::Store& store, int rank, int size,
                                       const EngineOptions& options) {
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  // Gloo waits five times as long for a connection.
  const auto limit = std::chrono::duration<double>(std::clamp(options.timeout_s / 5, 0.2, 1e6));
  context->setTimeout(std::chrono::duration_cast<milliseconds>(limit));
  std::shared_ptr<gloo::transport::Device> device =
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(options.address.c_str()));
  Rendezvous rendezvous(store, options);
  context->connectFullMesh(rendezvous, device);
  return context;
}

}  // namespace

// Destroying the buffer gives the transfer up: Gloo then does not touch the memory any more.
class GlooLink::Moving final : public Transfer {
 public:
  Moving(int peer, bool is_send, std::unique_ptr<gloo::transport::UnboundBuffer> buffer)
      : Transfer(peer), is_send_(is_send), buffer_(std::move(buffer)) {}
  gloo::transport::UnboundBuffer& buffer() const noexcept { return *buffer_; }
  // False when interrupted. Throws what Gloo throws.
  bool wait(milliseconds at_most) const {
    return is_send_ ? buffer_->waitSend(at_most) : buffer_->waitRecv(at_most);
  }
  void interrupt() const { is_send_ ? buffer_->abortWaitSend() : buffer_->abortWaitRecv(); }

 private:
  const bool is_send_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
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
  std::array<Place, 8> places;  // in turn
  std::mutex mutex;
  std::deque<std::unique_ptr<Sent>> sent;
};

GlooLink::GlooLink(Store& store, int rank, int size, const EngineOptions& options)
    : rank_(rank), size_(size) {
  // Gloo writes to connections that a peer has closed. That is an error there, and no reason to
  // end.
  ::signal(SIGPIPE, SIG_IGN);
  try {
    context_ = connect(store, rank, size, options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(
        fmt::format("rank {} of {}: Gloo cannot connect the ranks: {}", rank, size, error.what()));
  }
  clock_thread_ = std::thread([this] { tick(); });
}

GlooLink::~GlooLink() {
  stop();
  mail_.clear();
  context_.reset();
}

std::unique_ptr<GlooLink::Moving> GlooLink::start(int peer, std::uint64_t slot, void* data,
                                                  std::size_t bytes, bool is_send) {
  try {
    auto moving =
        std::make_unique<Moving>(peer, is_send, context_->createUnboundBuffer(data, bytes));
    is_send ? moving->buffer().send(peer, slot, 0, bytes)
            : moving->buffer().recv(peer, slot, 0, bytes);
    return moving;
  } catch (const std::exception&) {
    throw LostPeer{peer};
  }
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
  auto& moving = static_cast<Moving&>(transfer);
  {
    const std::lock_guard lock(clock_mutex_);
    awaited_ = &moving;
    was_awaited_ = false;
  }
  bool done = false, lost = false;
  try {
    done = moving.wait(kForever);
  } catch (const std::exception&) {
    lost = true;
  }
  const std::lock_guard lock(clock_mutex_);
  awaited_ = nullptr;
  if (lost) throw LostPeer{transfer.peer()};
  return done;
}

// A transfer that is awaited at two ticks is interrupted at the second.
void GlooLink::tick() {
  std::unique_lock lock(clock_mutex_);
  while (!stopping_.load(std::memory_order_seq_cst)) {
    clock_.wait_for(lock, kTick);
    if (awaited_ != nullptr && was_awaited_) awaited_->interrupt();
    was_awaited_ = awaited_ != nullptr;
  }
}

void GlooLink::listen(std::function<void(int, const Notice&)> hear, std::function<void(int)> lose) {
  for (int peer = 0; peer < size_; ++peer) mail_.push_back(std::make_unique<Mail>());
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    listeners_.emplace_back([this, peer, hear, lose] {
      try {
        hear_peer(peer, hear);
      } catch (const std::exception&) {
        lose(peer);
      } catch (const LostPeer&) {
        lose(peer);
      }
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
    if (!place.moving) throw LostPeer{peer};
    if (!place.moving->wait(kForever)) continue;
    const Notice notice = place.heard;
    i = (i + 1) % mail.places.size();
    try {
      post(place);
    } catch (const LostPeer&) {  // notices that have come before are heard all the same
      const std::lock_guard lock(mail.mutex);
      place.moving.reset();
    }
    hear(peer, notice);
  }
}

void GlooLink::tell(int peer, const Notice& notice) noexcept {
  if (peer == rank_ || mail_.empty()) return;
  Mail& mail = *mail_[static_cast<std::size_t>(peer)];
  try {
    const std::lock_guard lock(mail.mutex);
    auto sent = std::make_unique<Sent>();
    sent->notice = notice;
    sent->moving = start(peer, kNoticeSlot, &sent->notice, sizeof(Notice), true);
    mail.sent.push_back(std::move(sent));
    // The oldest were read long ago, or the peer reads no more and this connection is at its end.
    if (mail.sent.size() <= kNoticesUnderWay) return;
    mail.sent.front()->moving->wait(kFarewell);
    mail.sent.pop_front();
  } catch (const LostPeer&) {
  } catch (const std::exception&) {
  }
}

void GlooLink::stop() noexcept {
  if (stopping_.exchange(true)) return;
  for (const auto& mail : mail_) {
    const std::lock_guard lock(mail->mutex);
    if (mail->sent.empty()) continue;
    try {
      mail->sent.back()->moving->wait(kFarewell);
    } catch (const std::exception&) {
      continue;  // the peer is gone
    }
  }
  for (const auto& mail : mail_) {
    const std::lock_guard lock(mail->mutex);
    for (const Mail::Place& place : mail->places) {
      if (place.moving) place.moving->interrupt();
    }
  }
  for (std::thread& listener : listeners_) listener.join();
  if (clock_thread_.joinable()) {
    clock_.notify_all();
    clock_thread_.join();
  }
}

}  // namespace ddpbench::comm
