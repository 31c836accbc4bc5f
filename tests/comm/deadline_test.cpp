// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The clock of deadlines, and a wait that was stopped meanwhile.
#include "parallel/comm/store/deadline.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <thread>

#include "base/error.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Duration = DeadlineClock::duration;

constexpr Duration kBoot = seconds(1000);  // what CLOCK_MONOTONIC shows at first

TEST(DeadlineClock, GoesOnWhileSomebodyLooks) {
  DeadlineClock::Pauses pauses;
  const Duration begin = pauses.look(kBoot);
  for (int i = 1; i <= 100; ++i) {
    EXPECT_EQ(pauses.look(kBoot + i * DeadlineClock::kLongestSleep) - begin,
              i * DeadlineClock::kLongestSleep);
  }
}

TEST(DeadlineClock, StandsStillWhileNobodyCouldLook) {
  DeadlineClock::Pauses pauses;
  const Duration begin = pauses.look(kBoot);
  EXPECT_EQ(pauses.look(kBoot + seconds(1)) - begin, seconds(1));
  EXPECT_EQ(pauses.look(kBoot + seconds(601)) - begin, seconds(1));
  EXPECT_EQ(pauses.look(kBoot + seconds(602)) - begin, seconds(2));
  EXPECT_EQ(pauses.look(kBoot + seconds(702)) - begin, seconds(2));
  EXPECT_EQ(pauses.look(kBoot + milliseconds(702'001)) - begin, milliseconds(2001));
}

TEST(DeadlineClock, StandsStillWhileAnotherProcessIsHeldUp) {
  DeadlineClock::Pauses pauses;
  bool held = false;
  pauses.hold_while([&held] { return held; });
  const Duration begin = pauses.look(kBoot);
  Duration last = begin;
  for (int tenths = 1; tenths <= 100; ++tenths) {
    held = tenths > 20 && tenths <= 80;  // six seconds
    const Duration now = pauses.look(kBoot + milliseconds(100 * tenths));
    EXPECT_GE(now, last) << "it never goes back";
    last = now;
  }
  // It is asked twice a second.
  EXPECT_GE(last - begin, milliseconds(3500));
  EXPECT_LE(last - begin, milliseconds(4500));
}

TEST(DeadlineClock, ALookThatComesLateDoesNotTurnItBack) {
  DeadlineClock::Pauses pauses;
  pauses.look(kBoot + seconds(5));
  pauses.look(kBoot + seconds(3));  // of a thread that read the time before the other
  EXPECT_EQ(pauses.look(kBoot + seconds(3)), kBoot + seconds(5));
  EXPECT_EQ(pauses.look(kBoot + seconds(6)), kBoot + seconds(6));
}

TEST(Deadline, IsNeverFurtherThanAYearAndNotANumberHasPassed) {
  EXPECT_TRUE(has_passed(deadline_after(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_FALSE(has_passed(deadline_after(1e300)));
  EXPECT_EQ(sleep_until_look(deadline_after(1e300)), DeadlineClock::kLongestSleep);
  EXPECT_EQ(sleep_until_look(deadline_after(-1)), Duration::zero());
}

// The exit code of a process that waits for a key that is not there.
int code_of_waiting_process(double timeout_s, bool by_tcp, Duration stopped_for) {
  const int pid = ::fork();
  if (pid == 0) {
    TcpStoreOptions options{.secret = "s", .timeout_s = 30};
    const auto server = make_tcp_store_server(options);
    options.port = server->port();
    const auto store = by_tcp ? connect_tcp_store(options) : make_local_store();
    std::thread late([&] {
      std::this_thread::sleep_for(stopped_for + milliseconds(500));
      store->set("key", "value");
    });
    try {
      store->get("key", timeout_s);
    } catch (const CommTimeout&) {
      late.detach();
      ::_exit(4);
    }
    late.join();
    ::_exit(0);
  }
  std::this_thread::sleep_for(milliseconds(200));
  ::kill(pid, SIGSTOP);
  std::this_thread::sleep_for(stopped_for);
  ::kill(pid, SIGCONT);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class StoppedWait : public testing::TestWithParam<bool> {};

TEST_P(StoppedWait, GoesOnWhereItWas) {
  EXPECT_EQ(code_of_waiting_process(2, GetParam(), milliseconds(3500)), 0);
}

TEST_P(StoppedWait, StillEnds) {
  EXPECT_EQ(code_of_waiting_process(0.3, GetParam(), milliseconds(0)), 4);
}

INSTANTIATE_TEST_SUITE_P(Stores, StoppedWait, testing::Bool(),
                         [](const auto& p) { return p.param ? "Tcp" : "Local"; });

}  // namespace
}  // namespace ddpbench::comm
