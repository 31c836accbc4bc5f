// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "bench/plan/data_places.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/plan/parameter_plan.h"
#include "parallel/gradient_exchange.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/ranking.h"

namespace ddpbench::bench {
namespace {

nn::ParameterPlan parameter_plan(const nn::ModelSpec& model) {
  return nn::plan_parameters(
      mapped(model.layers, [&model](const nn::LayerSpec& layer) -> nn::LayerParameters {
        return {layer.name, model.plan_of(layer).parameters, {}, layer.trainable};
      }));
}

// Rounds to three significant digits, so that the user can type the size again.
double rounded(double size) { return std::stod(fmt::format("{:.3g}", size)); }

template <typename T>
void put_first(std::vector<T>& list, T value) {
  std::erase(list, value);
  list.insert(list.begin(), value);
}

constexpr char kTooFew[] = "tune needs two devices or more, as one sends nothing: --gpus=2";

void check_tunable(const Options& options) {
  const RunCell several{.strategy = "ddp", .world_size = 2, .accumulation_steps = 2};
  for (const SweepAxis& axis : sweep_axes()) {
    constexpr std::string_view kTuned[] = {"first-bucket-mb", "bucket-cap-mb", "overlap"};
    if (axis.listed(options) < 2 || !axis.heeded(several)) continue;
    if (std::ranges::count(kTuned, axis.option) > 0) continue;
    throw ConfigError(fmt::format(
        "tune finds the bucket sizes of one world; give one value of --{}", axis.option));
  }
  if (!options.all_gpus && options.gpus.front() < 2) throw ConfigError(kTooFew);
  if (options.epochs == 0) throw ConfigError("tune times steps, and --epochs=0 takes none");
}

// The settings to be tried, none measured: a report that is saved before the end says so.
report::Tune begin_tune(const Session& session, const std::vector<std::size_t>& cells) {
  const auto unknown = report::Figure::missing("tune ended before it was known");
  report::Tune tune;
  tune.screening_rounds = session.options().repetitions;
  tune.least_gain_ratio = session.options().least_gain.value_or(Percent{}).value / 100;
  tune.gain_ratio = tune.gain_low_ratio = tune.gain_high_ratio = unknown;
  tune.conclusion = "Nothing can be said: tune ended before its last run.";
  for (const std::size_t index : cells) {
    const RunCell& cell = session.cells()[index];
    const auto buckets = bucket_bytes(session.model(), cell.first_bucket_mb, cell.bucket_cap_mb);
    report::TuneSetting& setting = tune.settings.emplace_back();
    setting.first_bucket_mb = cell.first_bucket_mb;
    setting.bucket_cap_mb = cell.bucket_cap_mb;
    setting.overlap = cell.overlap;
    setting.buckets = static_cast<int>(buckets.size());
    setting.screening_ratio = unknown;
  }
  return tune;
}

// Some rounds of a tuning, in which all `cells` run.
struct Rounds {
  int first = 0, count = 0;

  // Returns false when interrupted.
  bool run(Session& session, const std::vector<std::size_t>& cells) const {
    Options options = session.options();
    options.repetitions = count;
    SweepSchedule schedule(cells, options, first);
    return session.sweep(schedule);
  }

  // Returns a ratio for each round that ran both cells: a pair shares the machine's state.
  std::vector<double> ratios(const Session& session, std::size_t cell, std::size_t base) const {
    std::vector<double> found;
    for (int round = first; round < first + count; ++round) {
      const auto own = step_time(session.find({cell, round}));
      const auto other = step_time(session.find({base, round}));
      if (own && other) found.push_back(*own / *other);
    }
    return found;
  }
};

// Sets the candidate: the setting with the smallest median ratio, if that is below 1.
void choose(const Session& session, const std::vector<std::size_t>& cells, const Rounds& screening,
            report::Tune& tune) {
  tune.gain_ratio = tune.gain_low_ratio = tune.gain_high_ratio = {};
  double best = 1;
  for (std::size_t s = 0; s < cells.size(); ++s) {
    auto found = screening.ratios(session, cells[s], cells[0]);
    report::Figure& ratio = tune.settings[s].screening_ratio;
    ratio = found.empty() ? report::Figure::missing("it did not succeed")
                          : report::Figure::of(report::median(std::move(found)));
    if (s == 0 || ratio.value.value_or(1) >= best) continue;
    best = *ratio.value;
    tune.candidate = s;
  }
}

}  // namespace

std::vector<std::size_t> bucket_bytes(const nn::ModelSpec& model, double first_bucket_mb,
                                      double bucket_cap_mb) {
  const auto bytes = [](double mb) {
    return static_cast<std::size_t>(mb * static_cast<double>(kMiB));
  };
  return mapped(plan_buckets(parameter_plan(model), bytes(first_bucket_mb), bytes(bucket_cap_mb)),
                &Bucket::bytes);
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
  const RunCell usual;
  put_first(options.first_buckets_mb, usual.first_bucket_mb);
  put_first(options.bucket_caps_mb, usual.bucket_cap_mb);
  put_first(options.overlaps, usual.overlap);
}

std::vector<std::size_t> distinct_settings(const std::vector<RunCell>& cells,
                                           const nn::ModelSpec& model) {
  const auto buckets = mapped(cells, [&model](const RunCell& cell) {
    return bucket_bytes(model, cell.first_bucket_mb, cell.bucket_cap_mb);
  });
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

int run_tune(Options options, std::vector<std::string> arguments) {
  check_tunable(options);
  fill_tune_lists(options, nn::load_model_file(find_model(options.model), options.crop));
  Session session(std::move(options), std::move(arguments));
  if (session.options().gpus.front() < 2) throw ConfigError(kTooFew);
  const std::vector<std::size_t> cells = distinct_settings(session.cells(), session.model());
  report::Tune tune = begin_tune(session, cells);
  const Rounds screening{0, tune.screening_rounds};
  const Rounds confirming{tune.screening_rounds, session.options().confirm_repetitions};
  say("{} settings, {} rounds of all, then the best against the default {} times:\n", cells.size(),
      screening.count, confirming.count);
  for (const report::TuneSetting& setting : tune.settings) {
    say("  {} ({})\n", report::describe(setting), counted(setting.buckets, "bucket"));
  }
  const auto runs = static_cast<int>(cells.size()) * screening.count + 2 * confirming.count;
  if (session.options().dry_run) return session.rehearse(static_cast<std::size_t>(runs));
  session.report().tune = tune;
  if (!screening.run(session, cells)) return session.finish();
  choose(session, cells, screening, tune);
  if (tune.candidate) {
    const std::size_t candidate = cells[*tune.candidate];
    if (!confirming.run(session, {cells.front(), candidate})) return session.finish();
    report::judge_gain(tune, confirming.ratios(session, candidate, cells.front()));
  }
  tune.conclusion = report::conclude(tune);
  session.report().tune = tune;
  return session.finish();
}

}  // namespace ddpbench::bench
