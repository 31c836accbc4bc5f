// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/environment_capture.h"
#include "bench/host/terminal.h"
#include "bench/options/option_source.h"
#include "bench/plan/data_places.h"
#include "bench/plan/training_checkpoint.h"
#include "kernels/nn/model/model_reader.h"
#include "reports/data/settings.h"
#include "reports/json/report_json.h"
#include "reports/metrics/noise.h"

namespace ddpbench::bench {
namespace {

// The servers that each run has on the CPU.
int servers_on_cpu(const Options& options) {
  if (options.server_device != "cpu") return 0;
  const std::vector<RunCell> cells = plan_matrix(options);
  return std::ranges::min_element(cells, {}, &RunCell::servers)->servers;
}

// The devices of the machine, or of `hosts`.
HostDevices devices_for(const Options& options, const RunHosts* hosts) {
  HostDevices devices = find_devices(options.device);
  if (hosts != nullptr) hosts->find_devices(devices, servers_on_cpu(options));
  return devices;
}

// Throws ConfigError for a fault that strikes in no run: such a test of a gate proves nothing.
void refuse_idle_faults(const std::vector<TrainingJob>& jobs) {
  for (const Injection& fault : jobs.front().options.injections) {
    if (std::ranges::none_of(jobs, std::bind_front(strikes, fault)))
      throw ConfigError(fmt::format(
          "--inject={} strikes in no run: none has that rank, step or exchange", fault.text));
  }
}

}  // namespace

std::string resolve_devices(Options& options, const HostDevices& host, const RunHosts* hosts) {
  DeviceChoice choice = choose_device(options, host);
  const int there = device_count(host, choice.device);
  const auto is_beyond = [there](int devices) { return devices > there; };
  if (!options.gpus_given.is_set && hosts == nullptr && choice.device == "cuda" &&
      !options.oversubscribe && std::erase_if(options.gpus, is_beyond) > 0) {
    choice.note += fmt::format("{}compares on {}, as there are no more here",
                               choice.note.empty() ? "" : "\n", counted(there, "GPU"));
  }
  if (options.all_gpus) {
    options.gpus = {hosts != nullptr ? hosts->slots() : there};
    check_options(options);
  }
  options.device = choice.device;
  options.server_device = choice.server_device;
  options.precision = choice.precision;
  // Between which hosts a run's ranks are decides theirs (RunHosts::backend).
  if (options.device == "cpu" && hosts == nullptr) {
    options.backend = choose_backend(options.backend, "cpu", false);
  }
  return choice.note;
}

std::optional<double> step_time(const report::Run* run) {
  if (run == nullptr || !report::is_complete(*run) || !run->step.time_s) return std::nullopt;
  return run->step.time_s->median;
}

Session::Session(Options options, std::vector<std::string> arguments,
                 std::unique_ptr<RunHosts> hosts)
    : options_(std::move(options)),
      hosts_(std::move(hosts)),
      host_(devices_for(options_, hosts_.get())) {
  resolve_options();
  std::optional<report::Report> earlier;
  if (!options_.resume_path.empty()) {
    earlier = report::read_report(options_.resume_path);
    check_has_runs_to_resume(*earlier, options_.resume_path);
  }
  file_ = ReportOutput(options_);
  catch_interrupts();  // what is planned and decoded from here on ends in a report
  executor_.emplace(options_, host_, hosts_.get());
  const std::string weights_note = hosts_ ? checkpoint_note(options_, model())  // on the hosts
                                          : check_checkpoint(options_, model());
  cells_ = plan_matrix(options_);
  if (!options_.runs.empty()) drop_equal_cells();
  const std::vector<TrainingJob> planned =  // every cell, before the first run is started
      mapped(cells_, [this](const RunCell& cell) { return executor_->plan(cell); });
  refuse_idle_faults(planned);
  for (const TrainingJob& job : planned) {
    if (!hosts_) refuse_crowd(job, host_);
    if (needs_reference(job)) ReferenceWeights::extent_of(job, model());  // or it throws
  }
  if (!hosts_ && options_.backend == "auto") {
    options_.backend = common_backend(mapped(planned, &TrainingJob::backend));
  }
  report_ = begin_report(options_, std::move(arguments));
  if (options_.device == "cuda" && !hosts_) add_gpus(report_.environment, host_);
  if (hosts_) hosts_->describe(report_.environment);
  if (earlier) adopt(std::move(*earlier));
  notes_.push_back(data_note(executor_->dataset(), options_));
  notes_.push_back(weights_note);
  if (const TrainingPosition& from = planned.front().resumed;
      from.steps > 0 && options_.epochs > 0) {
    notes_.push_back(fmt::format("training goes on from {} after step {}, in epoch {}{}",
                                 options_.resume_training, from.steps, from.epoch + 1,
                                 other_schedule(planned.front())));
  }
  for (const std::string& note : notes_) {
    if (!note.empty()) say("{}\n", note);
  }
  executor_->decode();
}

void Session::resolve_options() {
  const nn::ModelSpec model = nn::load_model_file(find_model(options_.model), options_.crop);
  for (Options& entry : options_.runs) {
    resolve_devices(entry, host_, hosts_.get());
    resolve_dataset(entry, model);
  }
  notes_.push_back(resolve_devices(options_, host_, hosts_.get()));
  check_saving(options_);  // what depends on the number of devices is known only now
  notes_.push_back(resolve_dataset(options_, model));
}

// Entries may differ in options that some of their strategies do not heed.
void Session::drop_equal_cells() {
  std::set<report::Settings> keys;
  std::erase_if(cells_, [&](const RunCell& cell) {
    return !keys.insert(report::cell_key(planned_run(executor_->plan(cell)))).second;
  });
  for (const std::size_t entry : entries_without_runs(options_, cells_)) {
    notes_.push_back(fmt::format(
        "note: /runs/{} of the configuration makes no run of its own: what it sets changes nothing "
        "here",
        entry));
  }
}

int Session::run() {
  if (options_.dry_run) {
    print_plan();
    return rehearse(cells_.size() * static_cast<std::size_t>(options_.repetitions));
  }
  std::vector<std::size_t> all(cells_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  SweepSchedule schedule(std::move(all), options_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (const auto step_s = step_time(&report_.runs[i])) schedule.record(slots_[i], step_s);
  }
  if (sweep(schedule)) drop_unwanted();
  return finish();
}

int Session::rehearse(std::size_t runs) {
  double expected_s = 0;  // of one repetition of all cells
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    executor_->place({.run = i + 1, .runs = cells_.size()});
    const std::optional<double> run_s = executor_->rehearse(cells_[i]);
    if (!run_s) return 130;
    expected_s += *run_s;
  }
  if (!executor_->exit_codes().empty()) return executor_->exit_codes().front();
  const double all_s = expected_s * static_cast<double>(runs) / static_cast<double>(cells_.size());
  say("{} checked: all can start.\n{}{}, about {}; report: {}\n", counted(cells_.size(), "run"),
      options_.until_ci ? "at least " : "", counted(runs, "run"), duration_words(all_s),
      options_.json_path.empty() ? "ddpbench-<UTC time>.json" : file_.place());
  return 0;
}

// Where the run of `slot` stands, after `made` runs of the schedule in `elapsed_s`.
SweepPlace Session::place_of(Slot slot, std::size_t made, const SweepSchedule& schedule,
                             double elapsed_s) const {
  // next() has taken the slot out of the round, but it is not recorded yet.
  const auto after_it = [slot](std::map<std::size_t, int> left) {
    left.try_emplace(slot.cell, 1);
    return std::accumulate(left.begin(), left.end(), -1,
                           [](int sum, const auto& cell) { return sum + cell.second; });
  };
  const int planned = after_it(schedule.runs_left(elapsed_s));
  const int most = after_it(schedule.most_runs_left(elapsed_s));
  SweepPlace place{.run = made + 1,
                   .runs = made + 1 + static_cast<std::size_t>(most),
                   .at_most = most > planned};
  if (made > 0) {
    const double mean_s = elapsed_s / static_cast<double>(made);
    place.later_s = mean_s * most;
    // No run beyond those that are planned begins after the limit.
    const double left_s = std::max(60 * options_.max_minutes - elapsed_s, 0.0);
    if (options_.max_minutes > 0) {
      place.later_s = std::min(*place.later_s, mean_s * planned + left_s);
    }
  }
  if (options_.until_ci) {
    place.interval = schedule.interval_width(slot.cell);
    place.wanted = options_.until_ci->value / 100;
  }
  return place;
}

bool Session::sweep(SweepSchedule& schedule) {
  file_.reserve(report_, options_);
  const double begin_s = steady_s();
  for (std::size_t made = 0; const auto slot = schedule.next(steady_s() - begin_s); ++made) {
    executor_->place(place_of(*slot, made, schedule, steady_s() - begin_s));
    RunCell cell = cells_[slot->cell];
    cell.repetition = slot->repetition;
    report::Run run = executor_->run(cell);
    run.sequence = next_sequence_++;
    schedule.record(*slot, step_time(&run));
    interrupted_ = run.status == report::Status::interrupted;
    keep(*slot, std::move(run));
    if (interrupted_) return false;
    save_partial();
    const report::Run* const kept = find(*slot);
    const std::string disturbed = report::disturbance({&kept, 1});
    if (!disturbed.empty() && !told_of_disturbance_) {
      say("disturbed: {}; runs that are disturbed give no answer\n", disturbed);
      told_of_disturbance_ = true;
    }
  }
  return true;
}

const report::Run* Session::find(Slot slot) const {
  const auto at = std::ranges::find(slots_, slot);
  return at == slots_.end() ? nullptr
                            : &report_.runs[static_cast<std::size_t>(at - slots_.begin())];
}

// Keeps the runs of `earlier`. Those that are not ok stay until they are made again, or until the
// sweep ends without them.
void Session::adopt(report::Report earlier) {
  check_resumable(earlier, report_, options_.resume_path);
  std::map<report::Settings, std::size_t> planned;  // every cell once, however many runs there are
  for (const RunCell& cell : cells_) {
    planned.emplace(report::cell_key(planned_run(executor_->plan(cell))), planned.size());
  }
  for (std::size_t i = 0; i < earlier.runs.size(); ++i) {
    report::Run& run = earlier.runs[i];
    if (run.dataset_source != executor_->dataset().source) {
      throw ConfigError(fmt::format("--resume={}: the data set was {}, is {}", options_.resume_path,
                                    run.dataset_source, executor_->dataset().source));
    }
    next_sequence_ = std::max(next_sequence_, run.sequence.value_or(static_cast<int>(i)) + 1);
    const auto cell = planned.find(report::cell_key(run));
    if (cell == planned.end() || find({cell->second, run.repetition}) != nullptr) {
      throw ConfigError(fmt::format(
          "--resume={}: /runs/{} is {}", options_.resume_path, i,
          cell == planned.end() ? "not a run of this command" : "there twice; remove one of them"));
    }
    keep({cell->second, run.repetition}, std::move(run));
  }
  first_sequence_ = next_sequence_;
  report_.started_at = earlier.started_at;
  const auto kept = std::ranges::count_if(
      report_.runs, [](const report::Run& run) { return step_time(&run).has_value(); });
  say("resuming {}: {} of its {} runs are kept\n", options_.resume_path, kept, report_.runs.size());
}

void Session::keep(Slot slot, report::Run run) {
  const auto at = std::ranges::lower_bound(slots_, slot);
  const auto index = at - slots_.begin();
  if (at != slots_.end() && *at == slot) {
    report_.runs[static_cast<std::size_t>(index)] = std::move(run);
  } else {
    slots_.insert(at, slot);
    report_.runs.insert(report_.runs.begin() + index, std::move(run));
  }
}

// Drops earlier runs that are not ok and that a whole sweep did not make again. The sweep does not
// concern them, and a report that says ok must not hold them.
void Session::drop_unwanted() {
  for (std::size_t i = slots_.size(); i-- > 0;) {
    const report::Run& run = report_.runs[i];
    const bool made_now = run.sequence.value_or(-1) >= first_sequence_;
    if (made_now || report::is_complete(run)) continue;
    RunCell cell = cells_[slots_[i].cell];
    cell.repetition = slots_[i].repetition;
    say("left out: {}, which was {} in {} and is not part of this command\n",
        run_title(cell, options_), report::to_string(run.status), options_.resume_path);
    report_.runs.erase(report_.runs.begin() + static_cast<std::ptrdiff_t>(i));
    slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Sets the report's status and error from its runs.
void Session::settle() {
  const report::Run* first = nullptr;
  for (const report::Run& run : report_.runs) {
    if ((run.status == report::Status::failed || run.status == report::Status::diverged) &&
        (first == nullptr || run.sequence < first->sequence)) {
      first = &run;
    }
  }
  report_.error = first != nullptr ? first->error : std::nullopt;
  report_.status = interrupted_       ? report::Status::interrupted
                   : first != nullptr ? report::Status::failed
                                      : report::Status::ok;
}

void Session::save_partial() {
  const double begin_s = steady_s();
  // Each save writes all of the report: that may take about a twentieth of the time.
  if (begin_s - saved_s_ < 20 * save_cost_s_) return;
  settle();
  file_.save_so_far(report_, options_);
  saved_s_ = steady_s();
  save_cost_s_ = saved_s_ - begin_s;
}

int Session::finish() {
  settle();
  finish_report(report_, executor_->trace(), options_, file_);
  if (interrupted_) return 130;
  if (!executor_->exit_codes().empty()) return executor_->exit_codes().front();
  // Runs that diverged are not made again when a report is resumed.
  return report_.status == report::Status::failed ? kDivergedExitCode : 0;
}

void Session::print_plan() const {
  say("model: {} ({} parameters), {}\n", model().name, model().parameter_count(),
      executor_->model_path());
  for (RunCell cell : cells_) {
    for (cell.repetition = 0; cell.repetition < options_.repetitions; ++cell.repetition) {
      const TrainingJob job = executor_->plan(cell);
      say("{}\n", plan_line(job, host_.cpu.cores.size()));
    }
  }
  if (options_.verbose) say("configuration: {}\n", to_json(options_).dump(2));
}

}  // namespace ddpbench::bench
