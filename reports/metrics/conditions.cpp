// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr double kSteadyTolerance = 0.02;
constexpr std::size_t kSmallestWindow = 5, kLargestWindow = 25;
constexpr std::size_t kFewestForDrift = 60;  // 20 in each third

// The standard deviation of the noise in both windows, from the changes between neighbours. A trend
// hardly moves these, and their median ignores outliers. For normal noise that median is 0.6745 *
// sqrt(2) * sigma.
double noise_sigma(std::span<const double> earlier, std::span<const double> later) {
  std::vector<double> changes;
  for (const auto& window : {earlier, later}) {
    for (std::size_t i = 1; i < window.size(); ++i) {
      changes.push_back(std::abs(window[i] - window[i - 1]));
    }
  }
  return changes.empty() ? 0 : median(std::move(changes)) / (0.6745 * std::sqrt(2.0));
}

double level(std::span<const double> window) { return median({window.begin(), window.end()}); }

// The change from the level (median) of one window of step times to that of a later one, as a share
// of it; 0 where it is no larger than `tolerance`, or than two standard errors by the noise within
// the windows. REQUIRES: neither window is empty.
double level_change(std::span<const double> earlier, std::span<const double> later,
                    double tolerance) {
  const double before = level(earlier);
  if (!(before > 0)) return 0;
  // A median of n normal values has the standard error 1.2533 sigma / sqrt(n).
  const double standard_error =
      1.2533 * noise_sigma(earlier, later) *
      std::sqrt(1 / static_cast<double>(earlier.size()) + 1 / static_cast<double>(later.size()));
  const double change = level(later) / before - 1;
  return std::abs(change) > std::max(tolerance, 2 * standard_error / before) ? change : 0;
}

constexpr const char* kNotTold = "not told by this system";

template <typename T>
Figure grown(const std::optional<T>& before, const std::optional<T>& after) {
  if (!before || !after) return Figure::missing(kNotTold);
  // Counters may be reset, as when a container moves: a negative growth counts as 0.
  return Figure::of(*after < *before ? 0 : static_cast<double>(*after - *before));
}

Figure level_of(const std::optional<double>& value) {
  return value ? Figure::of(*value) : Figure::missing(kNotTold);
}

// (part - own) / whole, in [0, 1].
Figure share(const Figure& part, const Figure& whole, const Figure& own = Figure::of(0)) {
  if (!part.value || !whole.value || !own.value) return Figure::missing(kNotTold);
  if (!(*whole.value > 0)) return Figure::missing("the run was too short");
  return Figure::of(std::clamp((*part.value - *own.value) / *whole.value, 0.0, 1.0));
}

std::string percent(double ratio) { return fmt::format("{:.0f} %", 100 * ratio); }

// What may be out of the ordinary in a run: its amount, from which limit on (of its size), and its
// words. In these {x} is the amount and {p} the amount in per cent, {u} "up to " where they are of
// several runs, and {s} the amounts in per cent with their signs, from the least to the most.
struct Check {
  double (*amount)(const Run&);
  double limit;
  const char* text;

  bool met(double value) const { return std::abs(value) >= limit; }
  std::string words(double least, double most, bool several) const {
    const double x = std::max(std::abs(least), std::abs(most));
    const std::string from = most - least >= 0.01 ? fmt::format("{:+.0f} to ", 100 * least) : "";
    return fmt::format(fmt::runtime(text), fmt::arg("x", x), fmt::arg("p", percent(x)),
                       fmt::arg("u", several ? "up to " : ""),
                       fmt::arg("s", fmt::format("{}{:+.0f} %", from, 100 * most)));
  }
  std::string words(double value) const { return words(value, value, false); }
};

template <Figure Conditions::*kMember>
double of(const Run& run) {
  return run.conditions ? ((*run.conditions).*kMember).value.value_or(0) : 0;
}

double frequency_loss(const Run& run) {
  const double begin = of<&Conditions::cpu_frequency_begin_mhz>(run);
  const double end = of<&Conditions::cpu_frequency_end_mhz>(run);
  return begin > 0 && end > 0 ? std::max(0.0, 1 - end / begin) : 0;
}

double restless(const Run& run) { return run.step.warmup_steady == std::optional(false) ? 1 : 0; }

// The share of the samples in which this reason held the clocks of a GPU down, of the worst one.
template <const std::string_view& kReason>
double held_down(const Run& run) {
  double most = 0;
  for (const DeviceRow& device : run.devices) {
    const auto& telemetry = device.gpu_telemetry.value;
    if (!telemetry || !telemetry->clock_event_ratios.value) continue;
    const auto found = telemetry->clock_event_ratios.value->find(std::string(kReason));
    if (found != telemetry->clock_event_ratios.value->end()) most = std::max(most, found->second);
  }
  return most;
}
// Idleness and clocks that a user set are no throttling. Where the driver knows the cause of a
// hardware slowdown, it reports both.
constexpr std::string_view kPower = "sw_power_cap", kSoftHeat = "sw_thermal_slowdown",
                           kHardHeat = "hw_thermal_slowdown", kBrake = "hw_power_brake_slowdown",
                           kProtection = "hw_slowdown", kBoost = "sync_boost";
constexpr double kLeastShare = 0.05;  // of the samples (docs/metrics.md)

// The first kChecksOfOthers tell what kept the CPU from this program, a quota before other load;
// the next one is the drift. The first kChecksOfMachine are the notes of Conditions.
constexpr std::size_t kChecksOfOthers = 3, kChecksOfMachine = 8;
constexpr Check kChecks[] = {
    {of<&Conditions::quota_throttled_ratio>, 0.01, "a CPU quota stopped it for {u}{p} of the time"},
    {of<&Conditions::other_load_ratio>, 0.10, "other programs used {u}{p} of the CPU"},
    {of<&Conditions::stolen_ratio>, 0.02, "other virtual machines took {u}{p} of the CPU"},
    {of<&Conditions::step_drift_ratio>, 0.05, "step times drifted by {s}"},
    {frequency_loss, 0.05, "the CPU's frequency fell by {u}{p}"},
    {of<&Conditions::thermal_throttle_count>, 1, "heat throttled the CPU {u}{x:.0f} times"},
    {of<&Conditions::swapped_in_pages>, 256, "{u}{x:.0f} pages were swapped in"},
    {of<&Conditions::major_page_faults>, 1000, "{u}{x:.0f} pages had to come from disk"},
    {held_down<kPower>, kLeastShare, "a power limit held a GPU's clocks down {u}{p} of the time"},
    {held_down<kSoftHeat>, kLeastShare,
     "heat (the driver's limit) held a GPU's clocks down {u}{p} of the time"},
    {held_down<kHardHeat>, kLeastShare,
     "heat (the GPU's limit) held a GPU's clocks down {u}{p} of the time"},
    {held_down<kBrake>, kLeastShare,
     "the host's power brake held a GPU's clocks down {u}{p} of the time"},
    {held_down<kProtection>, kLeastShare,
     "a GPU's protection held a GPU's clocks down {u}{p} of the time"},
    {held_down<kBoost>, kLeastShare,
     "another GPU of its group held a GPU's clocks down {u}{p} of the time"},
    {restless, 1, "step times were not steady when the warm-up ended at its limit"},
};

// Everything but step_drift_ratio and notes.
Conditions conditions_between(const MachineSnapshot& before, const MachineSnapshot& after) {
  Conditions c;
  const Figure all = grown(before.all_s, after.all_s);
  c.other_load_ratio =
      share(grown(before.busy_s, after.busy_s), all, grown(before.own_busy_s, after.own_busy_s));
  c.stolen_ratio = share(grown(before.stolen_s, after.stolen_s), all);
  c.quota_throttled_ratio = share(grown(before.quota_throttled_s, after.quota_throttled_s),
                                  grown(before.wall_s, after.wall_s));
  c.cpu_frequency_begin_mhz = level_of(before.cpu_frequency_mhz);
  c.cpu_frequency_end_mhz = level_of(after.cpu_frequency_mhz);
  c.major_page_faults = grown(before.own_major_page_faults, after.own_major_page_faults);
  c.involuntary_context_switches =
      grown(before.own_involuntary_switches, after.own_involuntary_switches);
  c.swapped_in_pages = grown(before.swapped_in_pages, after.swapped_in_pages);
  c.thermal_throttle_count = grown(before.thermal_throttles, after.thermal_throttles);
  return c;
}

}  // namespace

bool is_steady(std::span<const double> step_s) {
  if (step_s.size() < kFewestForSteady) return false;
  const std::size_t window = std::clamp(step_s.size() / 4, kSmallestWindow, kLargestWindow);
  const auto last = step_s.last(2 * window);
  return level_change(last.first(window), last.last(window), kSteadyTolerance) == 0;
}

Figure step_drift(std::span<const double> step_s) {
  if (step_s.size() < kFewestForDrift) {
    return Figure::missing(
        fmt::format("drift needs {} timed steps, there are {}", kFewestForDrift, step_s.size()));
  }
  const std::size_t third = step_s.size() / 3;
  const double change = level_change(step_s.first(third), step_s.last(third), 0);
  return change == 0 ? Figure::missing("no change beyond chance") : Figure::of(change);
}

void MachineSnapshot::add_own(const MachineSnapshot& other) {
  const auto add = [](auto& sum, const auto& more) {
    sum&& more ? void(*sum += *more) : sum.reset();
  };
  add(own_busy_s, other.own_busy_s);
  add(own_major_page_faults, other.own_major_page_faults);
  add(own_involuntary_switches, other.own_involuntary_switches);
}

void fill_conditions(Run& run, std::span<const MachineSnapshot> before,
                     std::span<const MachineSnapshot> after) {
  Conditions c = conditions_between(before[0], after[0]);
  for (std::size_t i = 1; i < before.size(); ++i) {
    const Conditions there = conditions_between(before[i], after[i]);
    for (const auto share : {&Conditions::quota_throttled_ratio, &Conditions::other_load_ratio,
                             &Conditions::stolen_ratio}) {
      const auto &most = (c.*share).value, &other = (there.*share).value;
      if (most && (!other || *other > *most)) c.*share = there.*share;
    }
  }
  c.step_drift_ratio = step_drift(run.step.samples_s);
  run.conditions = std::move(c);
  for (const Check& check : std::span(kChecks).first(kChecksOfMachine)) {
    const double amount = check.amount(run);
    if (check.met(amount))
      run.conditions->notes.push_back(check.words(amount) + " during this run");
  }
}

std::string other_work(const Run& run) {
  for (const Check& check : std::span(kChecks).first(kChecksOfOthers))
    if (const double amount = check.amount(run); check.met(amount)) return check.words(amount);
  return {};
}

std::string disturbance_words(const Run& run) {
  // A drift is noted from half of that on: runs on an idle machine have as much.
  constexpr double kDisturbing = 0.1;
  if (std::string others = other_work(run); !others.empty()) return others;
  const double drift = of<&Conditions::step_drift_ratio>(run);
  return std::abs(drift) < kDisturbing ? "" : kChecks[kChecksOfOthers].words(drift);
}

std::string Warning::line() const {
  return mark.empty() ? text : fmt::format("[{}] {}", mark, text);
}

std::vector<Warning> condition_warnings(const Report& report) {
  std::vector<Warning> warnings;
  for (const Check& check : kChecks) {
    Warning warning;
    double least = 0, most = 0;
    for (const Run& run : report.runs) {
      const double amount = check.amount(run);
      if (!check.met(amount)) continue;
      least = warning.runs.empty() ? amount : std::min(least, amount);
      most = warning.runs.empty() ? amount : std::max(most, amount);
      warning.runs.push_back(&run);
    }
    if (warning.runs.empty()) continue;
    warning.text = check.words(least, most, warning.runs.size() > 1);
    if (report.runs.size() > 1)
      warning.text += fmt::format(" ({} of {} runs)", warning.runs.size(), report.runs.size());
    warnings.push_back(std::move(warning));
  }
  return warnings;
}

}  // namespace ddpbench::report
