// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/verification_study/study_run.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "bench/host/host_devices.h"
#include "bench/plan/injection_reach.h"
#include "bench/plan/run_plan.h"
#include "bench/rank/rank_trainer.h"
#include "bench/rank/verification.h"
#include "bench/run/launch_run.h"
#include "kernels/nn/model/model_reader.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// One job's ranks as threads.
class Ranks {
 public:
  Ranks(const TrainingJob& job, const StudyCase& drawn, const nn::ModelSpec& model)
      : job_(job),
        drawn_(drawn),
        channels_(launch::RankChannels::create(channel_layout(job, model))) {}

  // Calls `work` with each rank's trainer, on the rank's thread. Throws the first error.
  template <typename Work>
  void run(const Work& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < channels_.layout().ranks; ++rank) {
      threads.emplace_back([this, rank, &work] { run_rank(rank, work); });
    }
    for (std::thread& thread : threads) thread.join();
    if (first_error_) std::rethrow_exception(first_error_);
  }

 private:
  template <typename Work>
  void run_rank(int rank, const Work& work) {
    std::unique_ptr<RankTrainer> trainer;
    try {
      RankInputs inputs;
      inputs.rank = rank;
      inputs.store = channels_.layout().ranks > 1 ? store_.get() : nullptr;
      inputs.decoded = drawn_.decoded;
      launch::RankWriter writer = channels_.writer(rank);
      trainer = std::make_unique<RankTrainer>(job_, inputs, writer);
      if (trainer->is_server()) return trainer->strategy().serve();
      work(*trainer);
      trainer->strategy().finish();
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex_);
        if (!first_error_) first_error_ = std::current_exception();
      }
      if (trainer) trainer->abort(error.what());
    }
  }

  const TrainingJob& job_;
  const StudyCase& drawn_;
  launch::RankChannels channels_;
  std::shared_ptr<comm::Store> store_ = comm::make_local_store();
  std::mutex mutex_;
  std::exception_ptr first_error_;
};

// Enters the results of all replicas, as the report of a run would judge them.
void judge(const std::vector<VerificationResult>& results, StudyOutcome& outcome) {
  outcome.passed = true;
  for (const VerificationResult& result : results) {
    outcome.weights.push_back(result.weights_hash);
    outcome.steps = result.steps;
    outcome.diverged = result.diverged;
    if (result.max_relative_error > 0) {
      outcome.worst = std::max(outcome.worst, result.max_relative_error / result.tolerance);
    }
    if (!result.is_within_tolerance()) {
      outcome.failure = fmt::format("{} in step {}: {:.3g}, tolerance {:.3g}", result.worst_tensor,
                                    result.worst_step, result.max_relative_error, result.tolerance);
    } else if (result.weights_hash != results[0].weights_hash) {
      outcome.failure = "replicas are not bit-equal";
    }
    outcome.passed = outcome.failure.empty();
  }
}

}  // namespace

StudyRunner::StudyRunner() : host_(find_devices("cpu")) {
  std::string pattern = std::filesystem::temp_directory_path() / "ddpbench-study-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw InternalError("mkdtemp failed");
  directory_ = pattern;
}

StudyRunner::~StudyRunner() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

StudyOutcome StudyRunner::run(const StudyCase& drawn) {
  const std::string path = directory_ + "/model.json";
  std::ofstream(path) << drawn.model;
  const nn::ModelSpec model = nn::load_model_file(path);
  TrainingJob job = make_training_job(drawn.options, plan_matrix(drawn.options).at(0),
                                      drawn.dataset, network_of(model, path), host_);
  for (auto& cores : job.cores) cores.clear();  // any: other programs may be running
  job.verification_tolerance = tolerance_for(job, model);
  job.reference_fd = 0;  // there is one
  StudyOutcome outcome;
  for (const Injection& injection : job.options.injections) {
    outcome.missed = why_it_misses(injection, job, model);
    if (!outcome.missed.empty()) return outcome;
  }
  auto reference = ReferenceWeights::create(ReferenceWeights::extent_of(job, model));
  const TrainingJob computing = reference_job(job);
  Ranks(computing, drawn, model).run([&](RankTrainer& rank) {
    compute_reference(rank, reference);
  });

  std::mutex mutex;
  std::vector<VerificationResult> all;
  Ranks(job, drawn, model).run([&](RankTrainer& rank) {
    const auto results = compare_with_reference(rank, reference);
    const std::lock_guard lock(mutex);
    all.insert(all.end(), results.begin(), results.end());
  });
  judge(all, outcome);
  return outcome;
}

}  // namespace ddpbench::bench
