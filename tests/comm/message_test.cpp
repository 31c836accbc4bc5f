// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Send, recv and groups, over threads and processes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/comm/conformance.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

struct Setting {
  RankKind kind;
  int size;
};

class MessageTest : public ::testing::TestWithParam<Setting> {
 protected:
  static void on_all_ranks(const RankFunction& function) {
    run_ranks(GetParam().kind, GetParam().size, function).expect_success();
  }
};

// The content of message number `message` from one rank to another.
std::vector<float> content(int from, int to, int message, std::size_t count) {
  std::vector<float> data(count);
  std::iota(data.begin(), data.end(), static_cast<float>(from * 1000 + to * 100 + message * 10));
  return data;
}

void expect_content(const std::vector<float>& got, int from, int to, int message) {
  check(
      got == content(from, to, message, got.size()),
      fmt::format("message {} of {} floats from {} to {} is wrong", message, got.size(), from, to));
}

TEST_P(MessageTest, EveryRankSendsBeforeItReceives) {
  on_all_ranks([](Communicator& c) {
    const int right = (c.rank() + 1) % c.size();
    const int left = (c.rank() + c.size() - 1) % c.size();
    for (const CallOptions& start : {kNow, kDeferred}) {
      for (const std::size_t count : {0UL, 1UL, 4099UL, 200'003UL}) {
        std::vector<float> out = content(c.rank(), right, 1, count);
        std::vector<float> in(count);
        const Work send = c.send({out.data(), count}, right, start);
        const Work recv = c.recv({in.data(), count}, left, start);
        send.synchronize();
        recv.synchronize();
        expect_content(in, left, c.rank(), 1);
      }
    }
  });
}

TEST_P(MessageTest, MessagesOfAPairArriveInTheOrderOfIssue) {
  on_all_ranks([](Communicator& c) {
    constexpr int kMessages = 12;
    if (c.rank() > 1) return;
    std::vector<std::vector<float>> data;
    std::vector<Work> works;
    for (int m = 0; m < kMessages; ++m) {
      const std::size_t count = static_cast<std::size_t>(m) * 1717;
      if (c.rank() == 0) {
        data.push_back(content(0, 1, m, count));
        works.push_back(c.send({data.back().data(), count}, 1, m % 2 ? kNow : kDeferred));
      } else {
        data.emplace_back(count);
        works.push_back(c.recv({data.back().data(), count}, 0, m % 3 ? kNow : kDeferred));
      }
    }
    // Waiting in the opposite order makes all of them progress.
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->synchronize();
    for (int m = 0; m < kMessages && c.rank() == 1; ++m) {
      expect_content(data[static_cast<std::size_t>(m)], 0, 1, m);
    }
  });
}

TEST_P(MessageTest, AGroupExchangesEverythingWithEverybodyItselfIncluded) {
  on_all_ranks([](Communicator& c) {
    constexpr std::size_t kCount = 30'011;
    std::vector<std::vector<float>> in, out;
    std::vector<Work> works;
    float sum = 1;
    for (int peer = 0; peer < c.size(); ++peer) {
      out.push_back(content(c.rank(), peer, 0, kCount));
      in.emplace_back(kCount);
    }
    c.group_start();
    // A collective in the middle of the group: it must not keep the messages from progressing.
    works.push_back(c.all_reduce({&sum, 1}, ReduceOp::sum));
    for (int i = 0; i < c.size(); ++i) {
      const auto peer = static_cast<std::size_t>((c.rank() + i) % c.size());
      works.push_back(c.recv({in[peer].data(), kCount}, static_cast<int>(peer)));
      works.push_back(c.send({out[peer].data(), kCount}, static_cast<int>(peer)));
    }
    c.group_end();
    for (const Work& work : works) work.synchronize();
    check(sum == static_cast<float>(c.size()), "the collective of the group is wrong");
    for (int peer = 0; peer < c.size(); ++peer) {
      expect_content(in[static_cast<std::size_t>(peer)], peer, c.rank(), 0);
    }
  });
}

TEST_P(MessageTest, AMessageProgressesWhileItsRankWaitsInACollective) {
  on_all_ranks([](Communicator& c) {
    constexpr std::size_t kCount = 500'009;
    float one = 1;
    if (c.rank() == 0) {
      std::vector<float> out = content(0, 1, 0, kCount);
      const Work send = c.send({out.data(), kCount}, 1, kNow);
      c.all_reduce({&one, 1}, ReduceOp::sum, kDeferred).synchronize();
      send.synchronize();
    } else {
      // Rank 1 enters the collective only after it has the whole message.
      if (c.rank() == 1) {
        std::vector<float> in(kCount);
        c.recv({in.data(), kCount}, 0, kDeferred).synchronize();
        expect_content(in, 0, 1, 0);
      }
      c.all_reduce({&one, 1}, ReduceOp::sum, kDeferred).synchronize();
    }
    check(one == static_cast<float>(c.size()), "the collective is wrong");
  });
}

TEST_P(MessageTest, TheFirstOfManyIsHeard) {
  on_all_ranks(check_the_first_of_many_messages_is_heard);
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const RankKind kind : {RankKind::threads, RankKind::processes}) {
    for (const int size : {2, 3, 5, 8}) all.push_back({kind, size});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ranks, MessageTest, ::testing::ValuesIn(settings()),
                         [](const auto& tested) {
                           const bool threads = tested.param.kind == RankKind::threads;
                           return fmt::format("{}{}", tested.param.size,
                                              threads ? "Threads" : "Processes");
                         });

}  // namespace
}  // namespace ddpbench::comm::testing
