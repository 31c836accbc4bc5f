// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/verification.h"

#include "base/error.h"
#include "kernels/nn/weights.h"

namespace ddpbench::bench {
namespace {

void check_tolerance(const TrainingJob& job, const VerificationResult& result) {
  // The comparison is written so that NaN fails too.
  if (result.max_relative_error <= job.verification_tolerance) return;
  throw VerificationError(fmt::format(
      "after {} steps {} differs from the reference by {:.3g} (relative error of its change), "
      "tolerance {:.3g}: {} on {} devices does not compute what one device computes",
      job.verify_steps(), result.worst_tensor, result.max_relative_error,
      job.verification_tolerance, job.cell.strategy, job.cell.world_size));
}

// Compares the hashes of the parameters of all replicas: directly within this process, through the
// store between processes.
void check_replicas_equal(RankTrainer& rank, const std::vector<VerificationResult>& results) {
  const TrainingJob& job = rank.job();
  const RankInputs& inputs = rank.inputs();
  std::uint64_t expected = results[0].weights_hash;
  if (inputs.store != nullptr && rank.world() != nullptr) {
    constexpr const char* kKey = "verification/weights_hash";
    if (inputs.rank == 0) inputs.store->set(kKey, std::to_string(expected));
    expected = std::stoull(inputs.store->get(kKey, wait_limit_s(job.options.timeout_s)));
  }
  for (const VerificationResult& result : results) {
    if (result.weights_hash == expected) continue;
    throw VerificationError(fmt::format(
        "after {} steps the parameters of a replica on rank {} are not bit-equal to replica 0's",
        job.verify_steps(), inputs.rank));
  }
}

}  // namespace

void compute_reference(RankTrainer& rank, ReferenceWeights& reference) {
  const nn::Graph& graph = rank.strategy().replicas()[0]->graph();
  const auto before = nn::export_weights(graph);
  rank.take_steps(rank.job().options.verify_steps, false, 0);
  reference.store(before, nn::export_weights(graph));
}

std::vector<VerificationResult> compare_with_reference(RankTrainer& rank,
                                                       const ReferenceWeights& reference) {
  Strategy& strategy = rank.strategy();
  std::vector<std::vector<nn::NamedTensor>> before;
  strategy.publish_parameters();
  for (Replica* replica : strategy.replicas()) {
    before.push_back(nn::export_weights(replica->graph()));
  }
  rank.take_steps(rank.job().verify_steps(), false, 0);
  strategy.publish_parameters();
  std::vector<VerificationResult> results;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto after = nn::export_weights(strategy.replicas()[i]->graph());
    results.push_back(reference.compare(before[i], after));
  }
  return results;
}

void check_verification(RankTrainer& rank, const std::vector<VerificationResult>& results) {
  for (const VerificationResult& result : results) check_tolerance(rank.job(), result);
  check_replicas_equal(rank, results);
}

}  // namespace ddpbench::bench
