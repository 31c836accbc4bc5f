// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_health.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddpbench::report {
namespace {

bool failed_verification(const Run& run) { return run.verification.status == "failed"; }

bool failed(const Run& run) { return run.status == Status::failed || failed_verification(run); }

// `not_applicable` strategies (approximate ones) have nothing to be verified against.
bool verified(const Run& run) {
  return run.verification.status == "passed" || run.verification.status == "reference";
}

std::string first_reason(std::span<const Run* const> runs, auto holds) {
  const auto found = std::ranges::find_if(runs, [&](const Run* run) { return holds(*run); });
  return found == runs.end() ? "" : unusable_reason(**found);
}

std::ptrdiff_t count(std::span<const Run* const> runs, auto holds) {
  return std::ranges::count_if(runs, [&](const Run* run) { return holds(*run); });
}

void raise(Health& health, GateVerdict floor, std::string note) {
  health.floor = std::max(health.floor, floor);
  health.notes.push_back(std::move(note));
}

}  // namespace

std::string unusable_reason(const Run& run) {
  if (failed_verification(run)) {
    return run.verification.reason.empty() ? "verification failed"
                                           : "verification failed: " + run.verification.reason;
  }
  if (run.status == Status::ok) return run.step.time_s ? "" : "no step was timed";
  const std::string& why = run.error ? run.error->message : run.reason;
  return why.empty() ? std::string(to_string(run.status))
                     : fmt::format("{}: {}", to_string(run.status), why);
}

std::vector<const Run*> usable_runs(std::span<const Run* const> runs) {
  std::vector<const Run*> usable;
  std::ranges::copy_if(runs, std::back_inserter(usable),
                       [](const Run* run) { return unusable_reason(*run).empty(); });
  return usable;
}

Health health_of(std::span<const Run* const> fresh, std::span<const Run* const> base) {
  Health health;
  const auto unwell = [](const Run& run) { return !unusable_reason(run).empty() && !failed(run); };
  if (const auto failures = count(fresh, failed); failures > 0) {
    const auto before = count(base, failed);
    raise(health, before == 0 ? GateVerdict::regressed : GateVerdict::inconclusive,
          fmt::format("{} of {} new repetitions failed ({}), {} of {} of the baseline", failures,
                      fresh.size(), first_reason(fresh, failed), before, base.size()));
  }
  if (const auto missing = count(fresh, unwell); missing > 0) {
    raise(health, GateVerdict::inconclusive,
          fmt::format("{} of {} new repetitions have no figures ({})", missing, fresh.size(),
                      first_reason(fresh, unwell)));
  }
  if (base.size() != usable_runs(base).size()) {
    health.notes.push_back(fmt::format(
        "{} of {} repetitions of the baseline have no figures ({})",
        base.size() - usable_runs(base).size(), base.size(),
        first_reason(base, [](const Run& run) { return !unusable_reason(run).empty(); })));
  }
  const auto unverified = [](const Run& run) {
    return unusable_reason(run).empty() && !verified(run);
  };
  if (count(fresh, unverified) > 0) {
    const bool worse = count(base, unverified) == 0;
    raise(health, worse ? GateVerdict::inconclusive : GateVerdict::pass,
          worse ? "the new runs are not verified, the baseline is" : "not verified on either side");
  }
  return health;
}

}  // namespace ddpbench::report
