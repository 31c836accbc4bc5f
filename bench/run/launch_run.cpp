// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/launch_run.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/rank/rank_main.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm_hook.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

constexpr double kProgressInterval_s = 15;  // where lines do not redraw

// Counts the phases and calls of a replica's traced steps. Per micro-batch, a layer runs at most
// twice forward (with a reorder) and four times backward (with a sum, and an output that is
// computed again). Micro-batches have at least 4 samples. A layer may exchange statistics in each
// direction.
std::size_t trace_capacity(const TrainingJob& job, const nn::ModelSpec& model) {
  const std::size_t most_calls = 6 * model.layers.size();
  const std::size_t micro_batches = 1 + static_cast<std::size_t>(job.per_device_batch) / 4;
  return static_cast<std::size_t>(job.options.trace_steps) *
         (2 * kPhaseCount + 2 * model.layers.size() + most_calls * micro_batches) *
         static_cast<std::size_t>(job.cell.accumulation_steps);
}

// A process takes this much for itself before its device has anything: libraries, stacks, heap.
constexpr std::uint64_t kProcessBytes = 16 * kMiB;

void check_process_memory(int processes) {
  const std::uint64_t needed = kProcessBytes * static_cast<std::uint64_t>(processes);
  const std::uint64_t available = memory_limit(read_host_limits()).bytes;
  if (needed <= available) return;
  throw ConfigError(fmt::format(
      "{} processes need at least {} bytes of memory for themselves, and {} are available; use "
      "fewer devices (--gpus) or servers (--servers)",
      processes, needed, available));
}

// Where SIGKILL ended a rank, and the kernel has ended a process for lack of memory since `before`,
// the failure's message says so.
void note_memory_kill(const MemoryKills& before, launch::SuperviseResult& result) {
  if (!result.failure || result.failure->signal != SIGKILL) return;
  const std::string words = memory_kill_words(before, read_memory_kills());
  if (!words.empty()) result.failure->error.message += "; " + words;
}

}  // namespace

void StepRate::see(double now_s, const launch::RankStatus& status) {
  constexpr double kKept = 0.9;  // of what was seen before
  const bool is_new_state = status.state != state;
  if (status.step <= step && !is_new_state) return;
  if (!is_new_state && step > 0) {
    steps = kKept * steps + static_cast<double>(status.step - step);
    time_s = kKept * time_s + (now_s - seen_s);
  }
  step = status.step;
  state = status.state;
  seen_s = now_s;
}

Progress::Style Progress::style_for_stdout(bool quiet) {
  if (quiet) return Style::quiet;
  return writes_to_terminal() ? Style::redraw : Style::lines;
}

void Progress::begin(const TrainingJob& job) {
  job_ = job;
  begin_s_ = steady_s();
  next_line_s_ = begin_s_ + kProgressInterval_s;
  rate_ = {.seen_s = begin_s_};
  if (style_ == Style::lines) {
    say("{}{}{}\n", numbered(), place_.runs > 1 ? ": " : "", job_.title);
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
  if (rate_.per_s() <= 0 || (!last && !place_.later_s)) return std::nullopt;
  const std::int64_t all = job_.is_reference() ? 0 : timed_steps(job_);
  // As many as there are if the warm-up takes no more than it must.
  const std::int64_t after = total_steps(job_) - static_cast<std::int64_t>(status.step);
  const std::int64_t steps = timed > 0 ? all - timed : std::max(all, after);
  return static_cast<double>(steps) / rate_.per_s() + (last ? 0 : *place_.later_s);
}

std::string Progress::stage(const launch::RankStatus& status, std::int64_t timed) const {
  std::string text(to_string(status.state));
  if (status.state != launch::RankState::training) return text;
  const int epochs = job_.options.epochs;
  const std::int64_t steps = job_.steps_per_epoch;
  const std::int64_t done = timed + job_.resumed.epoch * steps + job_.resumed.step;
  if (epochs > 1) text += fmt::format(", epoch {} of {}", status.epoch + 1, epochs);
  return text +
         fmt::format(", step {} of {}", std::min(done - status.epoch * steps + 1, steps), steps);
}

// What changes and is waited for comes first, because a narrow terminal shows only the beginning.
std::string Progress::line(const launch::RankStatus& status, std::int64_t timed) const {
  const std::optional<Percent>& wanted = job_.options.wanted_accuracy();
  std::vector<std::string> first;
  if (place_.runs > 1) first.push_back(numbered());
  if (const auto left = left_s(status, timed)) {
    const bool at_most = place_.at_most || (wanted && job_.options.epochs > 1);
    first.push_back(fmt::format("{}{} left", at_most ? "at most " : "", duration_words(*left)));
  }
  if (status.loss) first.push_back(fmt::format("loss {:.4f}", *status.loss));
  if (wanted && status.accuracy) {
    first.push_back(fmt::format("{} {:.2f} % of {:g} %",
                                job_.options.until_miou ? "mIoU" : "accuracy",
                                100 * *status.accuracy, wanted->value));
  }
  if (place_.interval && place_.wanted) {
    first.push_back(
        fmt::format("interval {:.1f} % of {:.1f} %", 100 * *place_.interval, 100 * *place_.wanted));
  }
  std::string text = fmt::format("{}{}{}: {}", fmt::join(first, ", "), first.empty() ? "" : ": ",
                                 job_.title, stage(status, timed));
  if (rate_.per_s() > 0) {
    const double rate = rate_.per_s() * static_cast<double>(job_.global_batch());
    text += fmt::format(", {} samples/s", short_number(rate));
  }
  return text;
}

bool Progress::is_due(double now_s) {
  if (style_ == Style::quiet || (style_ == Style::lines && now_s < next_line_s_)) return false;
  next_line_s_ = now_s + kProgressInterval_s;
  return true;
}

void Progress::show(const std::string& text) {
  if (style_ == Style::redraw) return status_line_.draw(text);
  say("  {}\n", text);
  std::fflush(stdout);
}

void Progress::update(const launch::RankChannels& channels, double now_s) {
  if (!is_due(now_s)) return;
  const launch::RankStatus status = channels.status(0);
  rate_.see(now_s, status);
  show(line(status, std::ssize(channels.steps(0))));
}

void Progress::show_decoding(std::int64_t done, std::int64_t of, const std::string& path) {
  if (!is_due(steady_s())) return;
  show(of > 0 ? fmt::format("{} of {} images decoded into {}", done, of, path)
              : fmt::format("waiting for another process that decodes images into {}", path));
}

void Progress::end() {
  if (style_ == Style::redraw) status_line_.clear();
}

int failure_exit_code(const launch::RankError& error) {
  const int code = error.exit_code;
  return code == 2 || code == 3 || code == 5 ? code : 4;
}

launch::ChannelLayout channel_layout(const TrainingJob& job, const nn::ModelSpec& model) {
  launch::ChannelLayout layout;
  const std::vector<RankPlan> ranks = plan_strategy(strategy_config(job)).ranks;
  layout.ranks = static_cast<int>(ranks.size());
  const auto steps = static_cast<std::size_t>(job.options.epochs * job.steps_per_epoch);
  layout.step_capacity = job.is_reference() ? 0 : steps;
  // ddp has at most one bucket per parameter tensor, and a layer at most two tensors. ps has one
  // shard per server.
  std::size_t buckets =
      std::max(2 * model.layers.size(), 2 * static_cast<std::size_t>(job.cell.servers));
  // Behind them sharded state has a tail, and gathers each. A hook may send each twice.
  const bool sends_twice =
      strategy_traits(job.cell.strategy).shards_state || selects(job.cell.comm_hook);
  if (sends_twice) buckets = 2 * (buckets + 1);
  const auto passes = static_cast<std::size_t>(job.cell.accumulation_steps);
  layout.bucket_capacity = job.options.observe ? layout.step_capacity * buckets * passes : 0;
  const std::size_t replicas = largest(  // that one rank has
      ranks, std::size_t{1}, [](const RankPlan& plan) { return plan.replicas.size(); });
  if (job.options.observe) layout.replica_capacity = layout.step_capacity * (replicas - 1);
  if (!job.options.trace_path.empty() && !job.is_reference()) {
    layout.trace_capacity = replicas * trace_capacity(job, model);
  }
  return layout;
}

HostJob host_job(const TrainingJob& job, const HostReference& reference) {
  HostJob all{.kind = kTrainingKind,
              .description = to_json(job),
              .plan = "",
              .backend = job.backend,
              .servers = job.is_reference() ? 0 : job.cell.servers,
              .threads_per_device = job.options.threads_per_device,
              .timeout_s = job.options.timeout_s,
              .interface = job.options.interface,
              .is_reference = job.is_reference(),
              .reference = reference};
  for (const RankPlan& rank : plan_strategy(strategy_config(job)).ranks) {
    all.devices.push_back(rank.replicas);
    const int number = static_cast<int>(all.devices.size()) - 1;
    if (rank.replicas.empty()) all.devices.back() = {number};  // a server's
  }
  return all;
}

launch::SuperviseResult launch_job(const HostJob& job, int ranks_per_process,
                                   const std::vector<int>& fds, launch::RankChannels& channels,
                                   const std::function<void(const launch::RankChannels&)>& progress,
                                   RunHosts* hosts) {
  launch::SuperviseOptions supervise;
  supervise.timeout_s = job.timeout_s;
  supervise.interrupted = interrupt_requested;
  supervise.progress = progress;
  if (hosts != nullptr) return hosts->run(job, channels, supervise);
  launch::LaunchSpec launch;
  launch.ranks = channels.layout().ranks;
  launch.ranks_per_process = ranks_per_process;
  check_process_memory(launch.processes());
  const nlohmann::json all = {{"kind", job.kind},
                              {"channel_fd", channels.fd()},
                              {"ranks_per_process", ranks_per_process},
                              {"description", job.description}};
  const std::string words = all.dump();
  const SharedMemory text = SharedMemory::create("ddpbench-run", words.size() + 1);
  std::memcpy(text.view().data, words.data(), words.size());
  launch.threads_per_device = job.threads_per_device;
  launch.environment[kJobFdVariable] = std::to_string(text.fd());
  launch.inherited_fds = {text.fd(), channels.fd()};
  launch.inherited_fds.insert(launch.inherited_fds.end(), fds.begin(), fds.end());
  const MemoryKills before = read_memory_kills();
  launch::SuperviseResult result = launch::run_ranks(launch, channels, supervise);
  note_memory_kill(before, result);
  return result;
}

launch::SuperviseResult launch_run(const TrainingJob& job, launch::RankChannels& channels,
                                   Progress& progress, RunHosts* hosts,
                                   const HostReference& reference) {
  std::vector<int> fds = {job.dataset_fd};
  if (job.reference_fd >= 0) fds.push_back(job.reference_fd);
  progress.begin(job);
  launch::SuperviseResult result = launch_job(
      host_job(job, reference), plan_strategy(strategy_config(job)).ranks_per_process, fds,
      channels, [&](const launch::RankChannels& all) { progress.update(all); }, hosts);
  progress.end();
  return result;
}

}  // namespace ddpbench::bench
