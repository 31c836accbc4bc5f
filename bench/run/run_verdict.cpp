// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
// Whether a run computed what it should: what its ranks found when they compared their weights with
// the reference's, and whether training diverged.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/run/run_records.h"
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

void fill_comparison(const VerificationResult& worst, report::Verification& verification) {
  verification.steps = static_cast<int>(worst.steps);
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

constexpr const char* kNotEqual = "replicas are not bit-equal";

std::vector<VerificationResult> all_results(std::span<const RankResult> ranks) {
  std::vector<VerificationResult> found;
  for (const RankResult& rank : ranks) {
    found.insert(found.end(), rank.verification.begin(), rank.verification.end());
  }
  return found;
}

// Whether replicas had equal weights after each step: those of as many ranks as each has parts.
bool are_bit_equal(std::span<const RankResult> ranks, std::size_t parts) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<VerificationResult>& first = ranks[r % parts].verification;
    const auto differs = [&](const VerificationResult& result) {
      return !first.empty() && result.weights_hash != first[0].weights_hash;
    };
    if (std::ranges::any_of(ranks[r].verification, differs)) return false;
  }
  return true;
}

// `found` is empty where the run was not compared, or ended before.
void conclude_approximate(const std::vector<VerificationResult>& found,
                          report::Verification& verification) {
  verification.status = "not_applicable";
  verification.reason = report::Verification::kByDesign;
  for (const VerificationResult& result : found) {
    verification.steps = static_cast<int>(result.steps);
    if (result.weights_hash != 0) {  // else they need not be equal
      verification.replicas_bit_equal = verification.replicas_bit_equal.value_or(true) &&
                                        result.weights_hash == found[0].weights_hash;
    }
    if (result.diverged.empty()) {
      verification.divergence = std::max(verification.divergence.value_or(0), result.divergence);
      continue;
    }
    verification.status = "diverged";
    verification.reason = result.diverged;
  }
  if (verification.status == "diverged") verification.divergence.reset();
  if (!verification.replicas_bit_equal.value_or(true)) {
    verification.status = "failed";
    verification.reason = kNotEqual;
  }
  verification.max_relative_error = report::Figure::missing(verification.reason);
  verification.tolerance = report::Figure::missing(verification.reason);
}

void summarize_results(const TrainingJob& job, std::span<const RankResult> results,
                       report::Verification& verification) {
  // Beyond this share of parameters that rounding alone may change, a comparison says little.
  constexpr double kMostVague = 0.5;
  verification.steps = job.verify_steps();
  verification.tolerance = report::Figure::of(job.verification_tolerance);
  const auto conclude = [&](const char* status, std::string reason) {
    verification.status = status;
    verification.reason = std::move(reason);
  };
  const std::vector<VerificationResult> found = all_results(results);
  if (found.empty()) {
    conclude("not_applicable", "the run ended before the verification did");
    verification.max_relative_error = report::Figure::missing(verification.reason);
    return;
  }
  const VerificationResult& worst = worst_of(found);
  const auto parts = static_cast<std::size_t>(strategy_config(job).stages);
  const bool equal = are_bit_equal(results, parts);
  const double vague = std::ranges::max(found, {}, &VerificationResult::vague_share).vague_share;
  verification.replicas_bit_equal = equal;
  fill_comparison(worst, verification);
  if (!equal) {
    conclude("failed", kNotEqual);
  } else if (!worst.is_within_tolerance()) {
    conclude("failed", fmt::format("{} differs in step {} by more than the tolerance",
                                   worst.worst_tensor, worst.worst_step));
  } else if (!worst.diverged.empty()) {
    conclude("diverged", worst.diverged);
  } else if (vague > kMostVague) {
    conclude("not_applicable",
             fmt::format("at this learning rate rounding alone may change {:.0f} % of the "
                         "parameters by half of their update: this could not show what is missing",
                         100 * vague));
  } else {
    conclude("passed", "");
  }
}

// The first rank that has weights that are not finite; the end: none has.
auto first_with_useless_weights(std::span<const RankResult> ranks) {
  return std::ranges::find_if(ranks,
                              [](const RankResult& rank) { return !rank.diverged_tensor.empty(); });
}

// Guessing has a loss of ln(classes). Far beyond it, the weights grow without bound.
std::string loss_explosion(const TrainingJob& job, const report::Run& run) {
  constexpr double kExploded = 100;
  const double chance = std::log(std::max(job.dataset.classes, 2));
  for (const report::EpochRow& epoch : run.epochs) {
    if (epoch.train_loss <= kExploded * chance) continue;
    return fmt::format("training diverged: the loss of epoch {} is {:.3g}, that of guessing {:.3g}",
                       epoch.epoch + 1, epoch.train_loss, chance);
  }
  return "";
}

// Why training counts as diverged, with the first sign of it; empty: it does not. `step`: the first
// one whose loss is not finite.
std::string divergence(const TrainingJob& job, std::span<const RankResult> ranks,
                       const report::Run& run, std::int64_t step) {
  if (step != 0) {
    std::string why =
        fmt::format("training diverged: the loss of step {} (in epoch {}) is not finite", step,
                    (step - 1) / job.steps_per_epoch + 1);
    // Ranks end with the epoch in which they see it.
    const auto done = job.resumed.epoch + static_cast<int>(run.epochs.size());
    if (done < job.options.epochs) {
      why += fmt::format("; epochs {} to {} were left out", done + 1, job.options.epochs);
    }
    return why;
  }
  if (run.verification.status == "diverged") return run.verification.reason;
  const auto useless = first_with_useless_weights(ranks);
  if (useless == ranks.end()) return loss_explosion(job, run);
  return fmt::format("training diverged: after the last step {} of rank {} is not finite",
                     useless->diverged_tensor, useless - ranks.begin());
}

}  // namespace

report::Verification summarize_verification(const TrainingJob& job,
                                            std::span<const RankResult> results) {
  report::Verification verification;
  std::string figures = "off";  // why there are none
  if (is_approximate(job)) {
    conclude_approximate(all_results(results), verification);
    return verification;
  }
  if (job.options.verify_steps == 0) {
    verification.status = "off";
  } else if (outcome_of(strategy_config(job)) == Outcome::baseline) {
    verification.status = "reference";
    figures = "this is what others are verified against";
  } else if (job.reference_fd < 0) {
    verification.status = "off";
    verification.reason = "there is no reference for this run";
  } else {
    summarize_results(job, results, verification);
    return verification;
  }
  verification.max_relative_error = verification.tolerance = report::Figure::missing(figures);
  return verification;
}

void note_divergence(const TrainingJob& job, std::span<const RankResult> ranks, report::Run& run) {
  std::int64_t step = 0;  // the first whose loss is not finite on any rank; 0: none
  for (const RankResult& rank : ranks) {
    const std::int64_t own = rank.diverged_step;
    if (own != 0 && (step == 0 || own < step)) step = own;
  }
  const bool is_complete = run.status == report::Status::ok;
  const std::string why = is_complete ? divergence(job, ranks, run, step) : "";
  if (!why.empty()) {
    const std::string advice =
        step == 1 ? "no update was made before it: look at the weights and the data"
                  : fmt::format("use a smaller learning rate (--lr is {})", job.options.lr);
    report::mark_diverged(run, why + "; " + advice);
    if (step != 0) run.error->step = step;
  }
  const auto useless = first_with_useless_weights(ranks);
  if (useless != ranks.end()) run.diverged_tensor = useless->diverged_tensor;
  if (step != 0) {
    run.diverged_step = Known<std::int64_t>::of(step);
  } else if (!why.empty()) {
    run.diverged_step = Known<std::int64_t>::missing("the loss of every step is finite");
  }
}

bool has_useless_weights(const report::Run& run) {
  return run.diverged_step.value || !run.diverged_tensor.empty();
}

}  // namespace ddpbench::bench
