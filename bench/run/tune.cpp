// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "bench/plan/data_places.h"
#include "bench/run/session.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/plan/parameter_plan.h"
#include "parallel/gradient_bucketer.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/ranking.h"

namespace ddpbench::bench {
namespace {

constexpr double kDefaultFirstMb = 1, kDefaultCapMb = 25;

nn::ParameterPlan parameter_plan(const nn::ModelSpec& model) {
  nn::ParameterPlan plan;
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const nn::LayerSpec& layer = model.layers[i];
    const auto parameters = model.plan_of(layer).parameters;
    for (std::size_t k = parameters.size(); k-- > 0;) {
      const std::size_t bytes = parameters[k].layout.bytes;
      plan.parameters.push_back({.offset_bytes = plan.flat_bytes, .bytes = bytes});
      plan.flat_bytes += round_up(bytes, nn::kParameterAlignment);
    }
  }
  return plan;
}

// Rounds to three significant digits, so that the user can type the size again.
double rounded(double size) { return std::stod(fmt::format("{:.3g}", size)); }

template <typename T>
void put_first(std::vector<T>& list, T value) {
  std::erase(list, value);
  list.insert(list.begin(), value);
}

}  // namespace

std::vector<std::size_t> bucket_bytes(const nn::ModelSpec& model, double first_bucket_mb,
                                      double bucket_cap_mb) {
  std::vector<std::size_t> sizes;
  const auto buckets = plan_buckets(
      parameter_plan(model), static_cast<std::size_t>(first_bucket_mb * static_cast<double>(kMiB)),
      static_cast<std::size_t>(bucket_cap_mb * static_cast<double>(kMiB)));
  for (const Bucket& bucket : buckets) sizes.push_back(bucket.bytes);
  return sizes;
}

void fill_tune_lists(Options& options, const nn::ModelSpec& model) {
  const double all =
      static_cast<double>(parameter_plan(model).flat_bytes) / static_cast<double>(kMiB);
  if (options.first_buckets_mb.empty()) {
    options.first_buckets_mb = {rounded(all / 32), rounded(all / 8), rounded(2 * all)};
  }
  if (options.bucket_caps_mb.empty()) {
    options.bucket_caps_mb = {rounded(all / 8), rounded(all / 4), rounded(all / 2)};
  }
  if (options.overlaps.empty()) options.overlaps = {true, false};
  put_first(options.first_buckets_mb, kDefaultFirstMb);
  put_first(options.bucket_caps_mb, kDefaultCapMb);
  put_first(options.overlaps, true);
}

std::vector<std::size_t> distinct_settings(const std::vector<RunCell>& cells,
                                           const nn::ModelSpec& model) {
  std::vector<std::vector<std::size_t>> buckets;
  for (const RunCell& cell : cells) {
    buckets.push_back(bucket_bytes(model, cell.first_bucket_mb, cell.bucket_cap_mb));
  }
  const std::size_t fewest =
      std::ranges::min(buckets, {}, [](const auto& sizes) { return sizes.size(); }).size();
  std::set<std::pair<bool, std::vector<std::size_t>>> seen;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool worth =
        cells[i].overlap || buckets[i] == buckets.front() || buckets[i].size() == fewest;
    if (worth && seen.insert({cells[i].overlap, buckets[i]}).second) chosen.push_back(i);
  }
  return chosen;
}

namespace {

void check_tunable(const Options& options) {
  if (options.gpus.size() > 1 || options.batch_sizes.size() > 1 ||
      options.global_batch_sizes.size() > 1 || options.cuda_graphs.size() > 1 ||
      options.all_reduces.size() > 1 || options.devices_per_process.size() > 1) {
    throw ConfigError(
        "tune finds the bucket sizes of one number of devices and one batch size; give one --gpus "
        "and one --batch-size or --global-batch-size, one --cuda-graph, one --all-reduce and "
        "one --devices-per-process");
  }
  if (!options.all_gpus && options.gpus.front() < 2) {
    throw ConfigError(
        "tune needs at least two devices, because one device sends nothing: --gpus=2");
  }
}

class Tuning {
 public:
  explicit Tuning(Session& session)
      : session_(session), settings_(distinct_settings(session.cells(), session.model())) {
    tune_.screening_rounds = session.options().repetitions;
    tune_.least_gain_ratio = session.options().least_gain.value_or(Percent{}).value / 100;
    for (const std::size_t cell : settings_) {
      const RunCell& c = session.cells()[cell];
      tune_.settings.push_back(
          {.first_bucket_mb = c.first_bucket_mb,
           .bucket_cap_mb = c.bucket_cap_mb,
           .overlap = c.overlap,
           .buckets = static_cast<int>(
               bucket_bytes(session.model(), c.first_bucket_mb, c.bucket_cap_mb).size())});
    }
  }

  void print() const {
    say("{} settings, {} rounds of all, then the best against the default {} times:\n",
        settings_.size(), tune_.screening_rounds, confirmations());
    for (const report::TuneSetting& setting : tune_.settings) {
      say("  {} ({})\n", report::describe(setting), counted(setting.buckets, "bucket"));
    }
  }

  // Returns false when interrupted: the report then says so in place of a conclusion.
  bool run() {
    expect_interrupt();
    if (!sweep(settings_, 0, tune_.screening_rounds)) return false;
    choose();
    if (tune_.candidate) {
      if (!sweep({settings_.front(), settings_[*tune_.candidate]}, tune_.screening_rounds,
                 confirmations())) {
        return false;
      }
      report::judge_gain(tune_, ratios(*tune_.candidate, tune_.screening_rounds, confirmations()));
    }
    tune_.conclusion = report::conclude(tune_);
    session_.report().tune = tune_;
    return true;
  }

 private:
  // Sets the conclusion of a report that is saved before the end.
  void expect_interrupt() {
    const auto unknown = report::Figure::missing("tune ended before it was known");
    report::Tune unfinished = tune_;
    for (report::TuneSetting& setting : unfinished.settings) setting.screening_ratio = unknown;
    unfinished.gain_ratio = unfinished.gain_low_ratio = unfinished.gain_high_ratio = unknown;
    unfinished.conclusion = "Nothing can be said: tune ended before its last run.";
    session_.report().tune = std::move(unfinished);
  }
  int confirmations() const { return session_.options().confirm_repetitions; }

  bool sweep(const std::vector<std::size_t>& cells, int first, int repetitions) {
    SchedulePolicy policy = schedule_policy(session_.options());
    policy.first_repetition = first;
    policy.repetitions = repetitions;
    SweepSchedule schedule(cells, policy);
    return session_.sweep(schedule);
  }

  std::optional<double> step_s(std::size_t setting, int repetition) const {
    const report::Run* run = session_.find({settings_[setting], repetition});
    if (run == nullptr || !report::is_complete(*run) || !run->step.time_s) {
      return std::nullopt;
    }
    return run->step.time_s->median;
  }

  // Ratios of rounds that ran both setting and default: a pair shares the machine's state.
  std::vector<double> ratios(std::size_t setting, int first, int repetitions) const {
    std::vector<double> found;
    for (int r = first; r < first + repetitions; ++r) {
      const auto own = step_s(setting, r);
      const auto base = step_s(0, r);
      if (own && base) found.push_back(*own / *base);
    }
    return found;
  }

  // Chooses the setting with the smallest median ratio, if that is below 1.
  void choose() {
    double best = 1;
    for (std::size_t s = 0; s < settings_.size(); ++s) {
      auto found = ratios(s, 0, tune_.screening_rounds);
      if (found.empty()) {
        tune_.settings[s].screening_ratio = report::Figure::missing("it did not succeed");
        continue;
      }
      const double ratio = report::median(std::move(found));
      tune_.settings[s].screening_ratio = report::Figure::of(ratio);
      if (s == 0 || ratio >= best) continue;
      best = ratio;
      tune_.candidate = s;
    }
  }

  Session& session_;
  std::vector<std::size_t> settings_;  // indices of cells; the first is the default
  report::Tune tune_;
};

}  // namespace

int run_tune(Options options, std::vector<std::string> arguments) {
  check_tunable(options);
  fill_tune_lists(options, nn::load_model_file(find_model(options.model)));
  Session session(std::move(options), std::move(arguments));
  if (session.options().gpus.front() < 2) {
    throw ConfigError("--gpus=all is one device here; tune needs at least two");
  }
  Tuning tuning(session);
  tuning.print();
  if (session.options().dry_run) return session.rehearse();
  tuning.run();
  return session.finish();
}

}  // namespace ddpbench::bench
