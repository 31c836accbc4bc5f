// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/clock.h"
#include "bench/host/terminal.h"

namespace ddpbench::bench {
namespace {

constexpr auto kLineInterval = std::chrono::seconds(15);  // where lines do not redraw

std::string duration_words(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

Progress::Style Progress::style_for_stdout(bool quiet) {
  if (quiet) return Style::quiet;
  return writes_to_terminal() ? Style::redraw : Style::lines;
}

void Progress::begin(const TrainingJob& job, const std::string& title) {
  title_ = title;
  total_ = total_steps(job);
  timed_ = job.is_reference() ? 0 : job.options.epochs * job.steps_per_epoch;
  steps_per_epoch_ = job.steps_per_epoch;
  epochs_ = job.options.epochs;
  wanted_accuracy_ = job.options.until_accuracy;
  global_batch_ = job.global_batch();
  begin_ = last_time_ = SteadyClock::now();
  next_line_ = begin_ + kLineInterval;
  last_step_ = 0;
  rate_ = 0;
  if (style_ == Style::lines) {
    say("{}{}{}\n", numbered(), place_.runs > 1 ? ": " : "", title_);
    std::fflush(stdout);
  }
}

// "run 7 of 50", or nothing where a command makes one run.
std::string Progress::numbered() const {
  if (place_.runs <= 1) return "";
  return fmt::format("run {} of {}{}", place_.run, place_.at_most ? "at most " : "", place_.runs);
}

// The time until the command's last run ends, where it can be told.
std::optional<double> Progress::left_s(const launch::RankStatus& status, std::int64_t timed) const {
  const bool last = place_.run >= place_.runs;
  if (rate_ <= 0 || (!last && !place_.later_s)) return std::nullopt;
  const auto step = static_cast<std::int64_t>(status.step);
  const std::int64_t steps = timed > 0 ? timed_ - timed : std::max(timed_, total_ - step);
  return static_cast<double>(steps) / rate_ + (last ? 0 : *place_.later_s);
}

std::string Progress::stage(const launch::RankStatus& status, std::int64_t timed) const {
  std::string text(to_string(status.state));
  if (status.state != launch::RankState::training) return text;
  if (epochs_ > 1) text += fmt::format(", epoch {} of {}", status.epoch + 1, epochs_);
  const std::int64_t step = timed - status.epoch * steps_per_epoch_ + 1;
  return text + fmt::format(", step {} of {}", std::min(step, steps_per_epoch_), steps_per_epoch_);
}

// What changes and is waited for comes first, because a narrow terminal shows only the beginning.
std::string Progress::line(const launch::RankStatus& status, std::int64_t timed) const {
  std::vector<std::string> first;
  if (place_.runs > 1) first.push_back(numbered());
  if (const auto left = left_s(status, timed)) {
    const bool at_most = place_.at_most || (wanted_accuracy_ && epochs_ > 1);
    first.push_back(fmt::format("{}{} left", at_most ? "at most " : "", duration_words(*left)));
  }
  if (status.loss) first.push_back(fmt::format("loss {:.4f}", *status.loss));
  if (wanted_accuracy_ && status.accuracy) {
    first.push_back(fmt::format("accuracy {:.2f} % of {:g} %", 100 * *status.accuracy,
                                wanted_accuracy_->value));
  }
  if (place_.interval && place_.wanted) {
    first.push_back(
        fmt::format("interval {:.1f} % of {:.1f} %", 100 * *place_.interval, 100 * *place_.wanted));
  }
  std::string text = fmt::format("{}{}{}: {}", fmt::join(first, ", "), first.empty() ? "" : ": ",
                                 title_, stage(status, timed));
  if (rate_ > 0) {
    text += fmt::format(", {:.0f} samples/s", rate_ * static_cast<double>(global_batch_));
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
  if (style_ == Style::redraw) return status_line_.draw(text);
  say("  {}\n", text);
  std::fflush(stdout);
}

void Progress::show_waiting() {
  if (style_ == Style::quiet) return;
  const auto now = SteadyClock::now();
  if (style_ == Style::lines && now < next_line_) return;
  next_line_ = now + kLineInterval;
  std::string text = numbered();
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  text += fmt::format("{}{}: for {}", text.empty() ? "" : ": ", title_, duration_words(seconds));
  if (style_ == Style::redraw) return status_line_.draw(text);
  say("  {}\n", text);
  std::fflush(stdout);
}

void Progress::end() {
  if (style_ == Style::redraw) status_line_.clear();
}

}  // namespace ddpbench::bench
