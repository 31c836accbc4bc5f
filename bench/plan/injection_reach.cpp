// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/injection_reach.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "bench/options/option_injection.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/tune_plan.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kNamedRuns = 3;  // that a line names; further ones are counted

// The steps of a run's three parts, each of which begins at step 0 of the training.
struct StepCounts {
  std::int64_t verification = 0, warm_up = 0, training = 0;
};

StepCounts most_steps(const TrainingJob& job) {
  return {needs_reference(job) ? job.options.verify_steps : 0, warmup_limit(job.options),
          job.options.epochs * job.steps_per_epoch};
}

std::string no_step(std::int64_t step, std::int64_t count) {
  if (step < count) return "";
  return fmt::format("its steps are 0 to {} at most", count - 1);
}

// The first device of a rank loads the batch for all and updates.
bool is_of_the_first_alone(Phase phase) {
  return phase == Phase::data_wait || phase == Phase::optimizer;
}

// For the kinds that strike a rank while it takes steps, or one of its devices (slow).
std::string why_no_process(const Injection& injection, const TrainingJob& job) {
  const StrategyConfig config = strategy_config(job);
  const auto ranks = plan_strategy(config).ranks;
  const bool of_device = injection.kind == "slow" && job.cell.world_size > 1 &&
                         strategy_traits(job.cell.strategy).one_process;
  if (of_device && injection.rank >= job.cell.world_size) {
    return fmt::format("its devices are 0 to {}", job.cell.world_size - 1);
  }
  if (!of_device && injection.rank >= std::ssize(ranks)) {
    return ranks.size() == 1 ? std::string("it is one process, rank 0")
                             : fmt::format("its ranks are 0 to {}", ranks.size() - 1);
  }
  if (!of_device && injection.rank >= 0 &&
      ranks[static_cast<std::size_t>(injection.rank)].role == Role::server) {
    return fmt::format("rank {} is a server there, which takes no steps", injection.rank);
  }
  for (std::size_t i = 0; i < kPhaseCount && !injection.phase.empty(); ++i) {
    const auto phase = static_cast<Phase>(i);
    if (injection.phase == to_string(phase) && !marks_phase(config, phase)) {
      return fmt::format("its steps have no phase {}", injection.phase);
    }
    if (of_device && injection.rank > 0 && injection.phase == to_string(phase) &&
        is_of_the_first_alone(phase)) {
      return fmt::format("device 0 has the phase {} for all", injection.phase);
    }
  }
  const StepCounts steps = most_steps(job);
  return no_step(injection.step, steps.verification + steps.warm_up + steps.training);
}

// For the kinds that strike calls between processes.
std::string why_no_call(const Injection& injection, const TrainingJob& job) {
  if (plan_strategy(strategy_config(job)).ranks.size() == 1) {
    return "it is one process, which calls no other";
  }
  const CommBackend* const backend = find_comm_backend(job.backend);
  if (backend != nullptr && backend->devices != DeviceKind::cpu) {
    return fmt::format("the calls of {} run on GPUs", job.backend);
  }
  if (injection.kind == "drop-link" && backend != nullptr && !backend->breaks_links) {
    return fmt::format("{} has no link that could be broken", job.backend);
  }
  return why_no_process(injection, job);
}

// Each rank draws its weights from the seed. dp's devices get those of the first in each step.
std::string why_no_other_start(const Injection& injection, const TrainingJob& job) {
  const auto ranks = plan_strategy(strategy_config(job)).ranks;
  if (!job.options.load_model.empty()) return "its weights come from --load-model, not from a seed";
  if (ranks.size() == 1) return "it is one process, whose weights are all that there are";
  if (injection.rank >= std::ssize(ranks)) {
    return fmt::format("its ranks are 0 to {}", ranks.size() - 1);
  }
  if (ranks[static_cast<std::size_t>(injection.rank)].role == Role::server) {
    return fmt::format("rank {} is a server there, which gets its weights from worker 0",
                       injection.rank);
  }
  return "";
}

std::string why_not_stale(const Injection& injection, const TrainingJob& job) {
  if (injection.rank >= job.cell.world_size) {
    return fmt::format("its devices are 0 to {}", job.cell.world_size - 1);
  }
  const bool primary = injection.rank == 0;
  if (strategy_traits(job.cell.strategy).one_process && !primary && injection.step == 0) {
    return fmt::format("device {} begins with the parameters of step 0 anyway", injection.rank);
  }
  const StepCounts steps = most_steps(job);
  return no_step(injection.step, std::max({steps.verification, steps.warm_up, steps.training}));
}

std::string why_no_bucket(const Injection& injection, const TrainingJob& job,
                          const nn::ModelSpec& model) {
  const StrategyTraits& traits = strategy_traits(job.cell.strategy);
  std::size_t count = 1;
  if (traits.has_servers) count = static_cast<std::size_t>(job.cell.servers);
  if (traits.uses_buckets) {
    count = bucket_bytes(model, job.cell.first_bucket_mb, job.cell.bucket_cap_mb).size();
  }
  if (static_cast<std::size_t>(injection.bucket) < count) return "";
  return count == 1 ? std::string("it has one bucket, 0")
                    : fmt::format("its buckets are 0 to {}", count - 1);
}

}  // namespace

std::string why_it_misses(const Injection& injection, const TrainingJob& job,
                          const nn::ModelSpec& model) {
  const bool of_gradients =
      injection.kind == "sum" || injection.kind == "missing_bucket" || injection.kind == "stale";
  if (injection.kind == "seed") return why_no_other_start(injection, job);
  if (strikes_calls(injection)) return why_no_call(injection, job);
  if (!of_gradients) return why_no_process(injection, job);
  if (strategy_traits(job.cell.strategy).is_baseline()) {
    return "it is what others are compared with, and never has this fault";
  }
  if (injection.kind == "stale") return why_not_stale(injection, job);
  if (job.cell.world_size == 1) return "one device has nothing to reduce";
  if (injection.kind != "sum") return why_no_bucket(injection, job, model);
  if (!optimizer_of(job).is_adaptive()) return "";
  return fmt::format(
      "{} divides gradients by their own size, so it updates by a sum as by an "
      "average",
      job.options.optimizer);
}

std::vector<std::string> check_injections(const std::vector<TrainingJob>& jobs,
                                          const nn::ModelSpec& model) {
  std::vector<std::string> lines;
  if (jobs.empty()) return lines;
  for (const Injection& injection : jobs[0].options.injections) {
    std::vector<std::string> missed;
    for (const TrainingJob& job : jobs) {
      const std::string why = why_it_misses(injection, job, model);
      if (why.empty()) continue;
      std::string text = fmt::format("{} ({})", run_name(job), why);
      if (std::ranges::count(missed, text) == 0) missed.push_back(std::move(text));
    }
    if (missed.empty()) continue;
    const std::size_t further = missed.size() - std::min(missed.size(), kNamedRuns);
    missed.resize(missed.size() - further);
    const std::string names = fmt::format("{}{}", fmt::join(missed, ", "),
                                          further > 0 ? fmt::format(" and {} more", further) : "");
    const bool hits_one = std::ranges::any_of(
        jobs, [&](const TrainingJob& job) { return why_it_misses(injection, job, model).empty(); });
    if (!hits_one) {
      throw ConfigError(fmt::format("--inject={}: it hits nothing in {}", injection.text, names));
    }
    lines.push_back(fmt::format("--inject={} hits nothing in {}", injection.text, names));
  }
  return lines;
}

}  // namespace ddpbench::bench
