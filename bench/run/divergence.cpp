// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace ddpbench::bench {
namespace {

// The first step whose loss is not finite on any rank; 0: none.
std::int64_t first_diverged_step(std::span<const RankResult> ranks) {
  std::int64_t first = 0;
  for (const RankResult& rank : ranks) {
    if (rank.diverged_step == 0) continue;
    first = first == 0 ? rank.diverged_step : std::min(first, rank.diverged_step);
  }
  return first;
}

// The first rank that has weights that are not finite; the end: none has.
std::span<const RankResult>::iterator first_with_useless_weights(
    std::span<const RankResult> ranks) {
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
    return fmt::format("training diverged: the loss of step {} (in epoch {}) is not finite", step,
                       (step - 1) / job.steps_per_epoch + 1);
  }
  if (run.verification.status == "diverged") return run.verification.reason;
  const auto useless = first_with_useless_weights(ranks);
  if (useless == ranks.end()) return loss_explosion(job, run);
  return fmt::format("training diverged: after the last step {} of rank {} is not finite",
                     useless->diverged_tensor, useless - ranks.begin());
}

// What training left out because the loss was not finite; empty: nothing. Ranks end with the epoch
// in which they see it.
std::string left_out(const TrainingJob& job, const report::Run& run) {
  const auto done = static_cast<int>(run.epochs.size());
  const int epochs = job.options.epochs;
  if (done >= epochs) return "";
  if (done + 1 == epochs) return fmt::format("; epoch {} was left out", epochs);
  return fmt::format("; epochs {} to {} were left out", done + 1, epochs);
}

// `step`: whose loss is not finite; 0: none.
std::string advice(const TrainingJob& job, std::int64_t step) {
  if (step == 1) return "no update was made before it: look at the weights and the data";
  return fmt::format("use a smaller learning rate (--lr is {})", job.options.lr);
}

}  // namespace

void note_divergence(const TrainingJob& job, std::span<const RankResult> ranks, report::Run& run) {
  const std::int64_t step = first_diverged_step(ranks);
  const bool is_complete = run.status == report::Status::ok;
  const std::string why = is_complete ? divergence(job, ranks, run, step) : "";
  if (!why.empty()) {
    report::mark_diverged(
        run, fmt::format("{}{}; {}", why, step != 0 ? left_out(job, run) : "", advice(job, step)));
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
