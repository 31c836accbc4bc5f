// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/wire/faulty_link.h"

#include <chrono>
#include <thread>
#include <utility>

namespace ddpbench::comm {

namespace {

// Between two looks at a link that is broken.
constexpr auto kBrokenLook = std::chrono::milliseconds(5);

}  // namespace

struct FaultyLink::Held final : public WireLink::Transfer {
  using Begin = std::function<std::unique_ptr<Transfer>()>;
  Held(FaultyLink& owner, int peer, Begin begin)
      : Transfer(peer), owner_(owner), begin_(std::move(begin)) {}
  ~Held() override { owner_.held_.remove(this); }

  void begin() {
    try {
      inner = begin_();
    } catch (const LostPeer&) {
      // wait() throws it.
    }
  }
  std::unique_ptr<Transfer> inner;  // null: not begun, or the peer was lost then

 private:
  FaultyLink& owner_;
  const Begin begin_;
};

std::unique_ptr<WireLink::Transfer> FaultyLink::send(int peer, const Slot& slot, const void* data,
                                                     std::size_t bytes) {
  auto held = std::make_unique<Held>(*this, peer, [this, peer, slot, data, bytes] {
    return link_->send(peer, slot, data, bytes);
  });
  is_whole() ? held->begin() : held_.push_back(held.get());
  return held;
}

// A receive may begin at any time: what matters is when this rank looks at it.
std::unique_ptr<WireLink::Transfer> FaultyLink::recv(int peer, const Slot& slot, void* data,
                                                     std::size_t bytes) {
  auto held = std::make_unique<Held>(*this, peer, [this, peer, slot, data, bytes] {
    return link_->recv(peer, slot, data, bytes);
  });
  held->begin();
  return held;
}

bool FaultyLink::wait(Transfer& transfer) {
  auto& held = static_cast<Held&>(transfer);
  if (is_whole()) {
    if (!held.inner) throw LostPeer{transfer.peer()};
    return link_->wait(*held.inner);
  }
  std::this_thread::sleep_for(kBrokenLook);
  return false;
}

void FaultyLink::listen(std::function<void(int, const Notice&)> hear,
                        std::function<void(int)> lose) {
  hear_ = std::move(hear);
  link_->listen(
      [this](int peer, const Notice& notice) {
        {
          const std::lock_guard lock(mutex_);
          if (watch_.link_is_broken() || !unheard_.empty()) {
            return unheard_.push_back({peer, notice});
          }
        }
        hear_(peer, notice);
      },
      std::move(lose));
}

void FaultyLink::tell(int peer, const Notice& notice) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (watch_.link_is_broken() || !unsent_.empty()) return unsent_.push_back({peer, notice});
  }
  link_->tell(peer, notice);
}

bool FaultyLink::is_whole() {
  if (watch_.link_is_broken()) return false;
  std::deque<Letter> unsent, unheard;
  {
    const std::lock_guard lock(mutex_);
    unsent.swap(unsent_);
    unheard.swap(unheard_);
  }
  for (Held* held : std::exchange(held_, {})) held->begin();
  for (const Letter& letter : unsent) link_->tell(letter.peer, letter.notice);
  for (const Letter& letter : unheard) hear_(letter.peer, letter.notice);
  return true;
}

void FaultyLink::poll() {
  if (is_whole()) link_->poll();
}

void FaultyLink::doze(std::atomic<std::uint32_t>& bell, std::uint32_t seen, Deadline deadline) {
  if (is_whole()) return link_->doze(bell, seen, deadline);
  std::this_thread::sleep_for(kBrokenLook);
}

bool FaultyLink::run_collective(const Operation& operation, const std::function<void()>& look) {
  while (!is_whole()) {
    look();
    std::this_thread::sleep_for(kBrokenLook);
  }
  return link_->run_collective(operation, look);
}

// What a broken link holds is lost.
void FaultyLink::stop() noexcept { link_->stop(); }

}  // namespace ddpbench::comm
