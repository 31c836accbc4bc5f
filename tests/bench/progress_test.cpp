// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/launch_run.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/clock.h"
#include "base/text.h"
#include "reports/table/table.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;

class ProgressLine : public testing::Test {
 protected:
  ProgressLine()
      : channels(launch::RankChannels::create({.ranks = 1, .step_capacity = 100})),
        writer(channels.writer(0)) {
    job.title = "ddp on 2 devices";
    job.per_device_batch = 32;
    job.steps_per_epoch = 6;
    job.options.epochs = 2;
    job.options.verify_steps = 0;
    job.options.warmup_steps = 0;
  }

  // Reports so many timed steps as done, the last when the line is shown.
  void train(int steps) {
    writer.state(launch::RankState::training);
    for (int i = 1; i < steps; ++i) end_step();
    has_last_ = true;
  }

  void end_step() {
    writer.begin_step(static_cast<std::uint32_t>(done_ / job.steps_per_epoch),
                      static_cast<std::uint64_t>(done_ + 1));
    writer.append(launch::StepRecord{});
    ++done_;
  }

  std::string shown(Progress::Style style, const SweepPlace& place = {}) {
    Progress progress(style);
    progress.place(place);
    testing::internal::CaptureStdout();
    progress.begin(job);
    progress.update(channels);
    if (has_last_) end_step();
    progress.update(channels);
    return testing::internal::GetCapturedStdout();
  }

  TrainingJob job;
  launch::RankChannels channels;
  launch::RankWriter writer;

 private:
  int done_ = 0;
  bool has_last_ = false;
};

// What polls every 0.1 s make of steps that take `step_s`, after a setup of 8 s.
double rate_of_polls(double step_s, double until_s) {
  constexpr double kSetup_s = 8;
  StepRate rate;
  for (double now_s = 0; now_s < kSetup_s + until_s; now_s += 0.1) {
    launch::RankStatus status;
    if (now_s >= kSetup_s) {
      status.state = launch::RankState::training;
      status.step = 1 + static_cast<std::uint64_t>((now_s - kSetup_s) / step_s);
    }
    rate.see(now_s, status);
  }
  return rate.per_s();
}

TEST(StepRate, IsRightForShortAndLongSteps) {
  for (const double step_s : {0.01, 0.06, 0.15, 1.0, 10.0}) {
    for (const double steps : {5.0, 30.0}) {
      EXPECT_NEAR(rate_of_polls(step_s, std::max(2.0, steps * step_s)) * step_s, 1, 0.2) << step_s;
    }
    EXPECT_EQ(rate_of_polls(step_s, 0), 0);
  }
}

// At the middle of 160 s, as polls every 0.1 s see them.
TEST_F(ProgressLine, HasTheTimeLeftOfShortAndOfLongSteps) {
  for (const double step_s : {0.01, 10.0}) {
    job.options.epochs = 1;
    job.steps_per_epoch = std::lround(160 / step_s);
    const auto steps = static_cast<std::size_t>(job.steps_per_epoch);
    auto seen = launch::RankChannels::create({.ranks = 1, .step_capacity = steps});
    launch::RankWriter rank = seen.writer(0);
    rank.state(launch::RankState::training);
    Progress progress(Progress::Style::redraw);
    testing::internal::CaptureStdout();
    progress.begin(job);
    const double begin_s = steady_s();
    std::uint64_t done = 0;
    for (double now_s = 0; now_s <= 80.05; now_s += 0.1) {
      for (; static_cast<double>(done) * step_s <= now_s; ++done) {
        rank.begin_step(0, done + 1);
        if (done > 0) rank.append(launch::StepRecord{});
      }
      progress.update(seen, begin_s + now_s);
    }
    const std::string text = testing::internal::GetCapturedStdout();
    const std::string last = text.substr(text.rfind('\r'));
    ASSERT_THAT(last, testing::ContainsRegex("[0-9]+ s left")) << last;
    EXPECT_NEAR(std::stod(last.substr(1)), 80, 16) << last;
  }
}

TEST_F(ProgressLine, ShowsEpochStepRateAndTimeLeftOnATerminal) {
  train(8);
  const std::string line = shown(Progress::Style::redraw);
  EXPECT_THAT(line, testing::StartsWith("\r"));
  EXPECT_THAT(line, HasSubstr("0 s left: ddp on 2 devices: training, epoch 2 of 2, step 3 of 6"));
  EXPECT_THAT(line, HasSubstr(" samples/s"));
}

TEST_F(ProgressLine, SaysWhichRunOfHowManyItIsAndWhenAllAreDone) {
  train(2);
  const std::string line = shown(Progress::Style::redraw, {.run = 7, .runs = 50, .later_s = 180.0});
  EXPECT_THAT(line, HasSubstr("run 7 of 50, 3 min left: ddp on 2 devices: training"));
}

TEST_F(ProgressLine, GuessesNoTimeForRunsThatNobodyKnows) {
  train(2);
  const std::string line = shown(Progress::Style::redraw, {.run = 1, .runs = 2});
  EXPECT_THAT(line, HasSubstr("run 1 of 2: ddp on 2 devices"));
  EXPECT_THAT(line, testing::Not(HasSubstr("left")));
}

TEST_F(ProgressLine, SaysTheLossAndTheIntervalReached) {
  train(8);
  writer.loss(0.40312);
  const std::string line =
      shown(Progress::Style::redraw,
            {.run = 7, .runs = 8, .later_s = 1.0, .interval = 0.041, .wanted = 0.02});
  EXPECT_THAT(line, HasSubstr("loss 0.4031"));
  EXPECT_THAT(line, HasSubstr("interval 4.1 % of 2.0 %"));
}

TEST_F(ProgressLine, GivesBoundsWhereFurtherRepetitionsMayFollow) {
  train(2);
  const std::string line =
      shown(Progress::Style::redraw, {.run = 5, .runs = 8, .at_most = true, .later_s = 180.0});
  EXPECT_THAT(line, HasSubstr("run 5 of at most 8, at most 3 min left: ddp on 2 devices"));
}

TEST_F(ProgressLine, SaysTheAccuracyWithWhichTrainingEnds) {
  train(8);
  writer.accuracy(0.9712);
  EXPECT_THAT(shown(Progress::Style::redraw), testing::Not(HasSubstr("accuracy")));
  job.options.until_accuracy = Percent{98};
  const std::string line = shown(Progress::Style::redraw);
  EXPECT_THAT(line, HasSubstr("accuracy 97.12 % of 98 %"));
  EXPECT_THAT(line, HasSubstr("at most 0 s left"));
}

TEST_F(ProgressLine, SpeaksInWords) {
  writer.state(launch::RankState::warming_up);
  EXPECT_THAT(shown(Progress::Style::redraw), HasSubstr("ddp on 2 devices: warming up"));
}

TEST(CutToColumns, KeepsTheBeginningAndWholeCharacters) {
  EXPECT_EQ(cut_to_columns("training", 8), "training");
  EXPECT_EQ(cut_to_columns("training", 0), "training");
  EXPECT_EQ(cut_to_columns("training", 5), "trai\u2026");
  EXPECT_EQ(cut_to_columns("\u00e4\u00f6\u00fc\u00df", 3), "\u00e4\u00f6\u2026");
}

TEST(Coloured, MarksCellsThatMustNotBeMissedAndNoWordsOfSentences) {
  EXPECT_EQ(coloured("ddp  2  NO(1)\nps   1  yes\n"),
            "ddp  2  \x1b[1;31mNO\x1b[0m(1)\nps   1  yes\n");
  EXPECT_EQ(coloured("REGRESSED  step\n"), "\x1b[1;31mREGRESSED\x1b[0m  step\n");
  for (const std::string sentence :
       {"one run failed, NO row was lost; FAILEDNESS  and  NOTHING\n",
        "(1) the run\n    failed (see its log)\n    NO (or none)\n    failed (1 time)\n"}) {
    EXPECT_EQ(coloured(sentence), sentence);
  }
}

TEST(Coloured, MarksWhatTheTableSaysOfRunsThatDidNotEnd) {
  report::Report report = report::test::sample_report();
  report.runs = {report::test::sample_run("ddp", 2, 100), report::test::sample_run("ps", 2, 100)};
  for (report::Run& run : report.runs) {
    run.step = {};
    run.epochs.clear();
  }
  report.runs[0].status = report::Status::failed;
  report.runs[0].reason = "rank 1 was killed";
  report.runs[1].status = report::Status::interrupted;
  const std::string table = coloured(report::render_table(report, 80));
  EXPECT_THAT(table, HasSubstr("\x1b[1;31mfailed\x1b[0m (1)\n"));
  EXPECT_THAT(table, HasSubstr("\x1b[33minterrupted\x1b[0m (2)\n"));
  EXPECT_THAT(table, HasSubstr("\n(1) failed: rank 1 was killed"));
}

// Puts a terminal of so many columns in place of stdout.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) : stdout_(::dup(STDOUT_FILENO)) {
    const winsize size{24, columns, 0, 0};
    opened_ = ::openpty(&master_, &slave_, nullptr, nullptr, &size) == 0;
    if (opened_) ::dup2(slave_, STDOUT_FILENO);
  }
  ~Terminal() {
    ::dup2(stdout_, STDOUT_FILENO);
    for (const int fd : {stdout_, master_, slave_}) ::close(fd);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool opened() const { return opened_; }
  std::string text() const {
    std::string all;
    std::array<char, 4096> bytes{};
    // What was written in two goes may come in two.
    for (pollfd ready{.fd = master_, .events = POLLIN}; ::poll(&ready, 1, 100) > 0;) {
      const ssize_t count = ::read(master_, bytes.data(), bytes.size());
      if (count <= 0) break;
      all.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  int stdout_;
  int master_ = -1, slave_ = -1;
  bool opened_ = false;
};

TEST(Coloured, NeedsATerminalAndNoRefusal) {
  EXPECT_FALSE(has_colours() && ::isatty(STDOUT_FILENO) == 0);
  const Terminal terminal(80);
  if (!terminal.opened()) GTEST_SKIP() << "no pseudo-terminal can be opened here";
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(has_colours());
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(has_colours());
  ::unsetenv("NO_COLOR");
}

// The ranks of mpirun write to a terminal even where mpirun writes to a file.
TEST(Coloured, IsNothingForTheTerminalOfMpirun) {
  const Terminal terminal(80);
  if (!terminal.opened()) GTEST_SKIP() << "no pseudo-terminal can be opened here";
  EXPECT_EQ(Progress::style_for_stdout(false), Progress::Style::redraw);
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_FALSE(has_colours());
  EXPECT_EQ(Progress::style_for_stdout(false), Progress::Style::lines);
  ::unsetenv("OMPI_COMM_WORLD_RANK");
}

TEST_F(ProgressLine, IsNeverWiderThanTheTerminal) {
  const Terminal terminal(40);
  if (!terminal.opened()) GTEST_SKIP() << "no pseudo-terminal can be opened here";
  train(8);
  Progress progress(Progress::Style::redraw);
  progress.place({.run = 7, .runs = 50, .later_s = 180.0});
  job.title = "ddp on 2 devices, batch 64, overlap off, repetition 1";
  progress.begin(job);
  progress.update(channels);
  end_step();
  progress.update(channels);
  std::string text = terminal.text();
  EXPECT_EQ(std::ranges::count(text, '\n'), 0);
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\r', begin);
    EXPECT_LT(display_width(text.substr(begin, end - begin)), 40u);
    if (end == std::string::npos) break;
  }
  EXPECT_THAT(text, HasSubstr("\rrun 7 of 50, 3 min left: ddp on 2"));
}

TEST_F(ProgressLine, CutsOffTheNameOfTheRunBeforeLossAndInterval) {
  const Terminal terminal(80);
  if (!terminal.opened()) GTEST_SKIP() << "no pseudo-terminal can be opened here";
  train(8);
  writer.loss(0.40312);
  Progress progress(Progress::Style::redraw);
  progress.place({.run = 5,
                  .runs = 24,
                  .at_most = true,
                  .later_s = 1800.0,
                  .interval = 0.041,
                  .wanted = 0.02});
  job.title = "ddp on 2 devices, batch 64, overlap off, repetition 1";
  progress.begin(job);
  progress.update(channels);
  end_step();
  progress.update(channels);
  EXPECT_THAT(terminal.text(), HasSubstr("\rrun 5 of at most 24, at most 30 min left, loss 0.4031, "
                                         "interval 4.1 % of 2.0 %"));
}

TEST_F(ProgressLine, RedrawsNothingWhereOutputIsNoTerminal) {
  train(3);
  EXPECT_EQ(shown(Progress::Style::lines), "ddp on 2 devices\n");  // lines follow after seconds
}

TEST_F(ProgressLine, IsSilentWhenAskedToBe) {
  train(3);
  EXPECT_EQ(shown(Progress::Style::quiet), "");
}

}  // namespace
}  // namespace ddpbench::bench
