// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a watch hears of a rank's calls, and the delays that it plants, between processes over
// shared memory.
#include "parallel/comm/communicator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::HasSubstr;

// Writes down what it hears; holds up the call of one number.
class Diary : public CallWatch {
 public:
  void begun(const Operation& operation) override { note("begins", operation); }
  void done(const Operation& operation) override { note("completes", operation); }
  double hold_up_s() override { return ++asked_ == held_call ? held_s : 0; }

  int held_call = 0;
  double held_s = 0;
  std::vector<std::string> notes;

 private:
  void note(const char* what, const Operation& operation) {
    notes.push_back(fmt::format("{} {}", what, describe(operation)));
  }
  int asked_ = 0;
};

// Two processes, of which rank 1 has a watch.
Outcome run_watched(Diary& diary, const RankFunction& function, double timeout_s = 60) {
  return run_processes(2, [&](Store& store, int rank) {
    WorldOptions options = test_options();
    options.timeout_s = timeout_s;
    if (rank == 1) options.watch = &diary;
    const auto communicator = make_shm(store, rank, 2, options);
    function(*communicator);
  });
}

CallOptions of_bucket(int bucket) {
  return {.after = nullptr, .start = Start::deferred, .bucket = bucket};
}

TEST(CallWatch, HearsEachCallWithItsBucket) {
  Diary diary;
  run_watched(diary, [&](Communicator& c) {
    std::vector<float> data(1000);
    float letter = 0;
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum, of_bucket(3)).synchronize();
    if (c.rank() == 0) c.send({&letter, 1}, 1).synchronize();
    if (c.rank() == 1) c.recv({&letter, 1}, 0).synchronize();
    c.barrier().synchronize();
    if (c.rank() == 0) return;
    const std::vector<std::string> wanted = {"begins all_reduce of 4000 bytes (bucket 3)",
                                             "completes all_reduce of 4000 bytes (bucket 3)",
                                             "begins recv of 4 bytes from rank 0",
                                             "completes recv of 4 bytes from rank 0",
                                             "begins barrier",
                                             "completes barrier"};
    check(diary.notes == wanted, fmt::format("{} notes", diary.notes.size()));
  }).expect_success();
}

TEST(CallWatch, HoldsACallUp) {
  Diary diary;
  diary.held_call = 2;
  diary.held_s = 0.15;
  run_watched(diary, [&](Communicator& c) {
    // Another rank may leave the first barrier when the held one stands still already.
    const double before_s = steady_s();
    c.barrier().synchronize();
    const double begin_s = c.rank() == 1 ? steady_s() : before_s;
    c.barrier().synchronize();
    check(steady_s() - begin_s >= 0.14, "the call was not held up");
    c.barrier().synchronize();
  }).expect_success();
}

// The others name it, and what they say ends its standing still.
TEST(CallWatch, HoldsACallUpUntilTheOthersHaveGivenUp) {
  Diary diary;
  diary.held_call = 2;
  diary.held_s = std::numeric_limits<double>::infinity();
  const Outcome outcome = run_watched(
      diary,
      [&](Communicator& c) {
        std::vector<float> data(1000);
        c.barrier().synchronize();
        c.all_reduce({data.data(), data.size()}, ReduceOp::sum, of_bucket(0)).synchronize();
      },
      0.5);
  EXPECT_THAT(outcome.errors[0], HasSubstr("all_reduce of 4000 bytes (bucket 0): deadline passed "
                                           "while waiting for rank 1, which did not come"));
  EXPECT_THAT(outcome.errors[1], HasSubstr("aborted by rank 0"));
}

}  // namespace
}  // namespace ddpbench::comm::testing
