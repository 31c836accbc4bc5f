// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank sees of processes that are not its children. Here they are, so that they can be
// ended.
#include "parallel/launch/world_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <functional>

namespace ddpbench::launch {
namespace {

// A process that does nothing until it is killed, once `work` is done.
class Sleeper {
 public:
  explicit Sleeper(const std::function<void()>& work = [] {}) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    for (;;) ::pause();
  }
  ~Sleeper() { end(); }
  pid_t pid() const { return pid_; }
  ProcessName name() const { return {pid_, read_process_state(pid_).value().start}; }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void end(int signal = SIGKILL) {
    if (pid_ == 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  // Leaves it unawaited, as a launcher does that has not looked yet.
  void kill(int signal) const {
    ::kill(pid_, signal);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t pid_;
};

TEST(WorldWatch, IsToldOfRanksOnOtherHosts) {
  WorldWatch watch(2);
  const RankChannels channels = RankChannels::create({.ranks = 2});
  EXPECT_FALSE(watch.look(channels, false)[1].exit);
  watch.tell_ended(1);
  EXPECT_TRUE(watch.has_ended(1));
  const auto views = watch.look(channels, false);
  EXPECT_TRUE(views[1].deserted);
  ASSERT_TRUE(views[1].exit);
  EXPECT_FALSE(views[1].exit->is_known);
}

TEST(WorldWatch, SeesThatAProcessIsStoppedAndThatItHasEnded) {
  Sleeper sleeper;
  WorldWatch watch(2);
  EXPECT_FALSE(watch.has_ended(1)) << "not watched yet";
  watch.add(1, sleeper.name());
  EXPECT_FALSE(watch.has_ended(1));
  EXPECT_FALSE(watch.is_stopped(1));
  sleeper.stop();
  EXPECT_TRUE(watch.is_stopped(1));
  sleeper.end();
  EXPECT_TRUE(watch.has_ended(1));
  EXPECT_FALSE(watch.is_stopped(1));
}

TEST(WorldWatch, SeesHowMuchOfTheProcessorsAProcessHasUsed) {
  Sleeper sleeper([] {
    while (std::clock() < CLOCKS_PER_SEC / 5) {
    }
  });
  WorldWatch watch(1);
  EXPECT_EQ(watch.state(0).letter, '?') << "not watched yet";
  watch.add(0, sleeper.name());
  while (watch.state(0).letter != 'S') {
  }
  EXPECT_GE(watch.state(0).busy_s, 0.15);
  EXPECT_LE(watch.state(0).busy_s, 0.3);
}

TEST(WorldWatch, SeesThatAProcessHadEndedBeforeItWasWatched) {
  Sleeper sleeper;
  const ProcessName name = sleeper.name();
  sleeper.end();
  WorldWatch watch(1);
  watch.add(0, name);
  EXPECT_TRUE(watch.has_ended(0));
}

TEST(WorldWatch, IsNotDeceivedByALaterProcessWithTheSameNumber) {
  const Sleeper later;
  ProcessName earlier = later.name();
  earlier.start -= 1;
  WorldWatch watch(1);
  watch.add(0, earlier);
  EXPECT_TRUE(watch.has_ended(0));
}

TEST(WorldWatch, ShowsWhatARankWroteBeforeItEndedAndThatItDeserted) {
  RankChannels channels = RankChannels::create({.ranks = 2});
  const RankChannels mapped = RankChannels::open(channels.handle(), channels.layout());
  channels.writer(1).begin_step(0, 7);
  Sleeper sleeper;
  WorldWatch watch(2);
  watch.add(1, sleeper.name());
  sleeper.end();
  const auto views = watch.look(mapped, false);
  ASSERT_EQ(views.size(), 2U);
  EXPECT_FALSE(views[0].exit);
  EXPECT_TRUE(views[1].exit);
  EXPECT_TRUE(views[1].deserted);
  EXPECT_EQ(views[1].status.step, 7U);
  EXPECT_FALSE(watch.look(mapped, true)[1].deserted) << "all had run to the end";
}

TEST(WorldWatch, SeesByWhichSignalAProcessEndedThatNobodyHasAwaited) {
  const RankChannels channels = RankChannels::create({.ranks = 1});
  for (const int signal : {SIGKILL, SIGTERM}) {
    Sleeper sleeper;
    WorldWatch watch(1);
    watch.add(0, sleeper.name());
    sleeper.kill(signal);
    const auto view = watch.look(channels, false)[0];
    ASSERT_TRUE(view.exit);
    EXPECT_TRUE(view.exit->is_known);
    EXPECT_EQ(view.exit->signal, signal);
    sleeper.end();
    EXPECT_EQ(watch.look(channels, false)[0].exit->signal, signal) << "it is remembered";
    EXPECT_FALSE(watch.look(channels, true)[0].exit->is_known) << "which does not matter then";
  }
}

// Only Linux from 6.15 on tells it then.
TEST(WorldWatch, SaysNothingWrongOfAProcessThatWasAwaited) {
  const RankChannels channels = RankChannels::create({.ranks = 1});
  Sleeper sleeper;
  WorldWatch watch(1);
  watch.add(0, sleeper.name());
  sleeper.end(SIGTERM);
  const auto exit = watch.look(channels, false)[0].exit;
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 0);
  EXPECT_EQ(exit->signal, exit->is_known ? SIGTERM : 0);
  utsname system{};
  ::uname(&system);
  int major = 0, minor = 0;
  if (std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return;
  EXPECT_EQ(exit->is_known, major > 6 || (major == 6 && minor >= 15));
}

}  // namespace
}  // namespace ddpbench::launch
