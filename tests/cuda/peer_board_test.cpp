// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the hosts of a CUDA communicator tell each other, without a GPU.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "parallel/comm/cuda/peer_board.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::HasSubstr;

Operation all_reduce(std::size_t count) {
  const Elements data{nullptr, count, DataType::fp32};
  return {OperationKind::all_reduce, ReduceOp::sum, 0, data, data};
}

TEST(PeerBoard, NamesTheRanksThatAreLate) {
  const auto board = PeerBoard::create("test", 3, FutexScope::process);
  for (int rank = 0; rank < 3; ++rank) board->attach(rank);
  const std::uint64_t number = board->issue(0, all_reduce(5));
  EXPECT_EQ(number, 1u);
  EXPECT_EQ(board->late_ranks(0, number), "rank 1, 2, which did not come");
  board->issue(1, all_reduce(5));
  EXPECT_EQ(board->late_ranks(0, number), "rank 2, which did not come");
  board->issue(2, all_reduce(5));
  EXPECT_THAT(board->late_ranks(0, number), HasSubstr("does not progress"));
}

TEST(PeerBoard, NoticesDifferentCallsWhoeverComesFirst) {
  const auto board = PeerBoard::create("test", 2, FutexScope::process);
  for (int i = 0; i < 200; ++i) board->issue(0, all_reduce(5));
  // Rank 1 is far behind. The first operations are no longer compared, the last ones are.
  for (int i = 0; i < 199; ++i) board->issue(1, all_reduce(5));
  try {
    board->issue(1, all_reduce(6));
    FAIL() << "5 and 6 elements went together";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks disagree: rank 1 calls all_reduce (sum, root 0) of "
                                        "6 fp32, rank 0 calls all_reduce (sum, root 0) of 5"));
  }
}

TEST(PeerBoard, ARankThatLeavesMattersOnlyToWhatItDidNotCall) {
  const auto board = PeerBoard::create("test", 2, FutexScope::process);
  board->attach(0);
  board->attach(1);
  board->issue(0, all_reduce(5));
  board->issue(1, all_reduce(5));
  board->leave(1);
  EXPECT_EQ(board->lost_rank(0, 1), "");
  board->issue(0, all_reduce(5));
  EXPECT_EQ(board->lost_rank(0, 2), "rank 1 has left the communicator");
}

// A rank that replays a graph issues nothing, while another may record the same step.
TEST(PeerBoard, ComparesNothingOnceSomebodyRecords) {
  const auto board = PeerBoard::create("test", 2, FutexScope::process);
  board->attach(0);
  board->attach(1);
  board->stop_counting();
  board->issue(0, all_reduce(5));
  EXPECT_NO_THROW(board->issue(1, all_reduce(6)));
  EXPECT_EQ(board->late_ranks(0, 7), "its peers");
  board->leave(1);
  EXPECT_EQ(board->lost_rank(0, 7), "");
}

TEST(PeerBoard, TheFirstAbortCounts) {
  const auto board = PeerBoard::create("test", 2, FutexScope::process);
  EXPECT_FALSE(board->aborted());
  board->abort(1, "over");
  board->abort(0, "out");
  EXPECT_TRUE(board->aborted());
  EXPECT_EQ(board->abort_reason(), "aborted by rank 1: over");
  EXPECT_THROW(board->exchange(0, "", 10), CommError);
}

TEST(PeerBoard, ExchangesTextsBetweenProcesses) {
  run_processes(4, [](Store& store, int rank) {
    const auto board = PeerBoard::meet(store, "test", rank, 4, 60);
    for (int round = 0; round < 100; ++round) {
      const auto texts = board->exchange(rank, std::to_string(rank * 1000 + round), 60);
      for (int peer = 0; peer < 4; ++peer) {
        check(texts[static_cast<std::size_t>(peer)] == std::to_string(peer * 1000 + round),
              "a wrong text");
      }
    }
  }).expect_success();
}

TEST(PeerBoard, SeesAProcessDie) {
  const Outcome outcome = run_processes(2, [](Store& store, int rank) {
    const auto board = PeerBoard::meet(store, "test", rank, 2, 60);
    check(board->lost_rank(rank, 0).empty(), "lost at once");
    board->exchange(rank, "", 60);
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    while (board->lost_rank(rank, 0).empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw CommError(board->lost_rank(rank, 0));
  });
  EXPECT_THAT(outcome.errors[0], HasSubstr("has died"));
  EXPECT_EQ(outcome.errors[1], "signal 9");
}

TEST(PeerBoard, TellsThatItWaits) {
  const auto board = PeerBoard::create("test", 2, FutexScope::process);
  for (const int rank : {0, 1}) board->attach(rank);
  int told = 0;
  // Rank 1 comes when rank 0 has said that it waits.
  const PeerWait wait(60, [&] {
    if (++told == 2) board->exchange(1, "", 60);
  });
  EXPECT_NO_THROW(board->exchange(0, "", wait));
  EXPECT_EQ(told, 2);
}

TEST(PeerBoard, WaitsForNobodyForEver) {
  const auto board = PeerBoard::create("test", 2, FutexScope::process);
  board->attach(0);
  EXPECT_THROW(board->exchange(0, "", 0.05), CommTimeout);
}

}  // namespace
}  // namespace ddpbench::comm::testing
