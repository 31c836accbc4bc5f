// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GlooLink: what a rank's connections to others do while one peer is stopped.
#include "parallel/comm/gloo/gloo_link.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "parallel/comm/store/store.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

constexpr double kWait_s = 60;

// One rank's link, and what it has heard.
class LinkedRank {
 public:
  LinkedRank(Store& store, int rank) : link_(store, rank, 3, options()) {
    link_.listen([this](int, const Notice&) { ++heard_; }, [this](int) { ++lost_; });
  }
  GlooLink& link() { return link_; }
  void tell(int peer, int notices) {
    for (int i = 0; i < notices; ++i) link_.tell(peer, Notice());
  }
  void expect_to_hear(int notices) const {
    const double begin_s = steady_s();
    while (heard_ < notices && steady_s() - begin_s < kWait_s) sleep_s(0.001);
    check(heard_ == notices, fmt::format("heard {} of {} notices", heard_.load(), notices));
  }
  // Fails if the connection to the peer has ended.
  void exchange_with(int peer) {
    float sent = 1, received = 0;
    const auto send = link_.send(peer, {}, &sent, sizeof sent);
    const auto recv = link_.recv(peer, {}, &received, sizeof received);
    check(finishes(*send) && finishes(*recv),
          fmt::format("the connection to rank {} has ended", peer));
    check(received == 1, "another value came");
  }
  // False if the connection has ended.
  bool finishes(WireLink::Transfer& transfer) {
    const double begin_s = steady_s();
    try {
      while (!link_.wait(transfer)) check(steady_s() - begin_s < kWait_s, "nothing came");
      return true;
    } catch (const LostPeer&) {
      return false;
    }
  }
  void await_loss() const {
    const double begin_s = steady_s();
    while (lost_ == 0 && steady_s() - begin_s < kWait_s) sleep_s(0.001);
    check(lost_ > 0, "no connection has ended");
  }
  int lost() const { return lost_; }

 private:
  static EngineOptions options() {
    EngineOptions options;
    options.timeout_s = kWait_s;
    return options;
  }

  std::atomic<int> heard_ = 0, lost_ = 0;
  GlooLink link_;  // last: its threads use the rest
};

void meet(Store& store, const std::string& name) { store_barrier(store, name, 3, kWait_s); }

// Rank 2 tells rank 0 notices without end, so that a thread of rank 0 posts receives meanwhile.
void flood_while(LinkedRank& own, const std::function<void()>& meanwhile) {
  {
    const std::jthread flood([&](const std::stop_token& over) {
      while (!over.stop_requested()) own.tell(0, 1);
    });
    meanwhile();
  }
  check(own.lost() == 0, "a connection has ended");
}

constexpr double kStopped_s = 3;

TEST(GlooLinkWithAStoppedPeer, TellsItLaterAndKeepsTheOtherConnections) {
  constexpr int kNotices = 300;
  run_processes(3, [](Store& store, int rank) {
    LinkedRank own(store, rank);
    meet(store, "met");
    if (rank == 2) {
      flood_while(own, [&] { own.exchange_with(0); });
      return meet(store, "left");
    }
    if (rank == 1) {
      stop_this_process(kStopped_s);
      own.expect_to_hear(kNotices);
      return meet(store, "left");
    }
    sleep_s(0.2);
    const double begin_s = steady_s();
    own.tell(1, kNotices);
    check(steady_s() - begin_s < kStopped_s - 0.5, "each notice waited for the stopped peer");
    own.exchange_with(2);
    check(own.lost() == 0, "a connection has ended");
    meet(store, "left");
  }).expect_success();
}

TEST(GlooLinkWithAStoppedPeer, LeavesInBoundedTimeAndEndsNoOtherConnection) {
  run_processes(3, [](Store& store, int rank) {
    LinkedRank own(store, rank);
    meet(store, "met");
    if (rank == 2) {
      flood_while(own, [&] { store.get("stopped", kWait_s); });
      return meet(store, "left");
    }
    if (rank == 1) {
      stop_this_process(kStopped_s);
      return meet(store, "left");
    }
    sleep_s(0.2);
    own.tell(1, 20);
    const double begin_s = steady_s();
    own.link().stop();
    check(steady_s() - begin_s < kStopped_s - 0.5, "it waited for the stopped peer");
    store.set("stopped", "");
    meet(store, "left");
  }).expect_success();
}

TEST(GlooLinkWithALostPeer, TellsItNothingMoreAndLeavesAtOnce) {
  run_processes(3, [](Store& store, int rank) {
    auto own = std::make_unique<LinkedRank>(store, rank);
    meet(store, "met");
    if (rank == 1) own.reset();
    if (rank == 0) {
      own->await_loss();
      const double lost_s = steady_s();
      own->tell(1, 10'000);
      own->link().stop();
      check(steady_s() - lost_s < 0.9, "it waited for the lost peer");
    }
    meet(store, "left");
  }).expect_success();
}

TEST(GlooLinkWithALostPeer, FailsTransfersThatAreBegunLater) {
  run_processes(3, [](Store& store, int rank) {
    auto own = std::make_unique<LinkedRank>(store, rank);
    meet(store, "met");
    if (rank == 1) own.reset();
    if (rank == 0) {
      own->await_loss();
      float value = 0;
      check(!own->finishes(*own->link().recv(1, {}, &value, sizeof value)), "it has received");
      check(!own->finishes(*own->link().send(1, {}, &value, sizeof value)), "it has sent");
    }
    meet(store, "left");
  }).expect_success();
}

// Some are given up before Gloo's thread has posted them.
TEST(GlooLink, TransfersThatAreGivenUpAtOnceDisturbNoOther) {
  run_processes(3, [](Store& store, int rank) {
    LinkedRank own(store, rank);
    float value = 0;
    for (std::uint64_t number = 1; number <= 1000; ++number) {
      own.link().recv((rank + 1) % 3, {.number = number}, &value, sizeof value);
    }
    for (const int peer : {0, 1, 2}) {
      if (peer != rank) own.exchange_with(peer);
    }
    check(value == 0, "something came");
    meet(store, "left");
  }).expect_success();
}

}  // namespace
}  // namespace ddpbench::comm::testing
