// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "bench/host/terminal.h"

namespace ddpbench::bench {
namespace {

constexpr auto kLineInterval = std::chrono::seconds(5);  // where lines do not redraw

}  // namespace

Progress::Style Progress::style_for_stdout(bool quiet) {
  if (quiet) return Style::quiet;
  return ::isatty(STDOUT_FILENO) != 0 ? Style::redraw : Style::lines;
}

void Progress::begin(const TrainingJob& job, const std::string& title) {
  title_ = title;
  total_ = total_steps(job);
  timed_ = job.is_reference() ? 0 : job.options.epochs * job.steps_per_epoch;
  steps_per_epoch_ = job.steps_per_epoch;
  epochs_ = job.options.epochs;
  global_batch_ = job.global_batch();
  begin_ = last_time_ = SteadyClock::now();
  next_line_ = begin_ + kLineInterval;
  last_step_ = 0;
  rate_ = 0;
  if (style_ == Style::lines) {
    say("{}\n", title_);
    std::fflush(stdout);
  }
}

std::string Progress::line(const launch::RankStatus& status, std::int64_t timed) const {
  const auto step = static_cast<std::int64_t>(status.step);
  const std::int64_t left = timed > 0 ? timed_ - timed : std::max(timed_, total_ - step);
  std::string text = fmt::format("{}: {}", title_, to_string(status.state));
  if (status.state == launch::RankState::training) {
    text += fmt::format(" epoch {}/{} step {}/{}", status.epoch + 1, epochs_,
                        std::min(timed - status.epoch * steps_per_epoch_ + 1, steps_per_epoch_),
                        steps_per_epoch_);
  }
  if (rate_ > 0) {
    text +=
        fmt::format(", {:.0f} samples/s, ETA {:.0f} s", rate_ * static_cast<double>(global_batch_),
                    static_cast<double>(left) / rate_);
  }
  return text;
}

void Progress::update(const launch::RankChannels& channels) {
  if (style_ == Style::quiet) return;
  const auto now = SteadyClock::now();
  if (style_ == Style::lines && now < next_line_) return;
  next_line_ = now + kLineInterval;
  const launch::RankStatus status = channels.status(0);
  const double elapsed = std::chrono::duration<double>(now - last_time_).count();
  if (status.step > last_step_ && elapsed > 0) {
    const double rate = static_cast<double>(status.step - last_step_) / elapsed;
    rate_ = rate_ == 0 ? rate : 0.7 * rate_ + 0.3 * rate;
  }
  last_step_ = status.step;
  last_time_ = now;
  const std::string text = line(status, std::ssize(channels.steps(0)));
  if (style_ == Style::lines) {
    say("  {}\n", text);
  } else {
    say("\r{:<{}}", text, drawn_);
    drawn_ = text.size();
  }
  std::fflush(stdout);
}

void Progress::end() {
  if (style_ != Style::redraw) return;
  say("\r{:<{}}\r", "", drawn_);
  drawn_ = 0;
  std::fflush(stdout);
}

}  // namespace ddpbench::bench
