// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/verification_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// The result that is largest in units of its tolerance.
const VerificationResult& worst_of(const std::vector<VerificationResult>& results) {
  const VerificationResult* worst = &results[0];
  for (const VerificationResult& result : results) {
    // As products: a result without any comparison has the tolerance 0.
    if (result.max_relative_error * worst->tolerance >
        worst->max_relative_error * result.tolerance) {
      worst = &result;
    }
  }
  return *worst;
}

// Sets the figures of the worst comparison.
void fill_comparison(const VerificationResult& worst, report::Verification& verification) {
  verification.worst_tensor = worst.worst_tensor;
  if (worst.steps == 0) {
    verification.max_relative_error = report::Figure::missing(worst.diverged);
    return;
  }
  verification.worst_step = static_cast<int>(worst.worst_step);
  verification.tolerance = report::Figure::of(worst.tolerance);
  verification.max_relative_error =
      std::isfinite(worst.max_relative_error)
          ? report::Figure::of(worst.max_relative_error)
          : report::Figure::missing(
                "infinite: a tensor that the reference left unchanged has changed, or is not a "
                "number");
}

// Why the comparison within the tolerance says little; empty: it says what it should.
std::string vagueness(const TrainingJob& job, const std::vector<VerificationResult>& found) {
  // Beyond it, more is hardly checked than is.
  constexpr double kMost = 0.5;
  const double share = std::ranges::max(found, {}, &VerificationResult::vague_share).vague_share;
  if (share <= kMost) return "";
  return fmt::format(
      "with {} in {} rounding alone may change {:.0f} % of the parameters by half of their update: "
      "this could not show what is missing{}",
      job.options.optimizer, job.options.precision, 100 * share,
      job.options.precision == "fp32" ? "" : "; verify in fp32");
}

void summarize_results(const TrainingJob& job, std::span<const RankResult> results,
                       report::Verification& verification) {
  verification.steps = job.verify_steps();
  verification.tolerance = report::Figure::of(job.verification_tolerance);
  std::vector<VerificationResult> found;
  for (const RankResult& rank : results) {
    found.insert(found.end(), rank.verification.begin(), rank.verification.end());
  }
  if (found.empty()) {
    verification.status = "not_applicable";
    verification.reason = "the run ended before the verification did";
    verification.max_relative_error = report::Figure::missing(verification.reason);
    return;
  }
  const VerificationResult& worst = worst_of(found);
  const bool equal = std::ranges::all_of(found, [&](const VerificationResult& result) {
    return result.weights_hash == found[0].weights_hash;
  });
  verification.steps = static_cast<int>(worst.steps);
  verification.replicas_bit_equal = equal;
  fill_comparison(worst, verification);
  if (!equal) {
    verification.status = "failed";
    verification.reason = "replicas are not bit-equal";
  } else if (!worst.is_within_tolerance()) {
    verification.status = "failed";
    verification.reason = fmt::format("{} differs in step {} by more than the tolerance",
                                      worst.worst_tensor, worst.worst_step);
  } else if (!worst.diverged.empty()) {
    verification.status = "diverged";
    verification.reason = worst.diverged;
  } else {
    verification.reason = vagueness(job, found);
    verification.status = verification.reason.empty() ? "passed" : "not_applicable";
  }
}

}  // namespace

report::Verification summarize_verification(const TrainingJob& job,
                                            std::span<const RankResult> results) {
  report::Verification verification;
  const Outcome outcome = strategy_traits(job.cell.strategy).outcome;
  std::string figures = "off";  // why there are none
  if (job.options.verify_steps == 0) {
    verification.status = "off";
  } else if (outcome == Outcome::baseline) {
    verification.status = "reference";
    figures = "this is what others are verified against";
  } else if (outcome == Outcome::approximate) {
    verification.status = "not_applicable";
    verification.reason = figures = "the strategy computes something else by design";
  } else if (job.reference_fd < 0) {
    verification.status = "off";
    verification.reason = "there is no reference for this run";
  } else {
    summarize_results(job, results, verification);
    return verification;
  }
  verification.max_relative_error = report::Figure::missing(figures);
  verification.tolerance = report::Figure::missing(figures);
  return verification;
}

}  // namespace ddpbench::bench
