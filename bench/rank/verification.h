// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The verification of a run: its replicas take a few steps, each from the reference's weights.
// Their gradients are compared with the reference's, and their weights with the update of these
// gradients and with each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/rank/rank_trainer.h"
#include "bench/rank/reference_weights.h"
#include "kernels/nn/graph.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/safetensors.h"

namespace ddpbench::bench {

// Takes the verification's steps and stores what they compute in `reference`. Ends early when
// training diverges. REQUIRES: the job is a reference job.
void compute_reference(RankTrainer& rank, ReferenceWeights& reference);

// Takes the steps that the reference took; returns one result per local replica. Replicas of an
// approximate strategy take them from their own weights, and only their divergence is told. Throws
// VerificationError when the starting weights differ. Collective.
std::vector<VerificationResult> compare_with_reference(RankTrainer& rank,
                                                       const ReferenceWeights& reference);

// Throws VerificationError when one of `results` is beyond the tolerance, or when the run's
// replicas did not have equal weights after each step. Collective over the run's workers.
void check_verification(RankTrainer& rank, const std::vector<VerificationResult>& results);

// How large the numbers are that a step of the reference adds up. The rounding errors of its
// gradients and statistics are relative to them; the sums may be much smaller, where terms cancel
// (docs/verification.md).
class GradientSizes {
 public:
  // `error`: the bound on the error of a gradient relative to its terms
  // (report::verification_tolerance). `probe`: nullopt where add_probe() is not called.
  GradientSizes(const nn::Graph& graph, double error, const std::optional<ProbeOptions>& probe)
      : graph_(graph), error_(error), probing_(probe) {}

  // Call it before the slices of a step when the graph's gradients are those of its probe.
  void add_probe();
  // The step was skipped because its gradients overflowed: they count as 0.
  void drop_gradients();
  // Call it when the gradients of a slice have been added to the graph's gradients.
  void add_slice();
  // What a step found of each tensor, in PyTorch's order.
  struct Step {
    std::vector<nn::NamedTensor> gradients;
    std::vector<double> sizes;
  };
  // Call it after each step.
  Step finish_step();
  // The name of a tensor with a gradient that is no finite number or too large; empty: none so far.
  const std::string& exploded() const { return exploded_; }

 private:
  void widen_to_measured(std::vector<double>& sizes) const;

  const nn::Graph& graph_;
  const double error_;
  const std::optional<ProbeOptions> probing_;
  std::vector<nn::NamedTensor> probe_;  // the gradients of this step's probe; empty: none
  std::vector<nn::NamedTensor> sum_;    // the gradients of the slices so far
  std::vector<double> slices_;          // [tensor], the sum over slices of the squared norms
  std::vector<double> earlier_;         // [tensor], the size in the step before, without the probe
  std::string exploded_;
};

// The size of each tensor of the state (nn::export_state), from its values before and after one
// forward pass in training, which give mean and standard deviation sigma of each channel. With the
// momentum m it is the norm over channels of m (|mean| + sigma) for a running mean, that of
// m sigma (|mean| + sigma) for a running variance, and 0 for a count, which is exact.
std::vector<double> state_sizes(const nn::ModelSpec& model,
                                const std::vector<nn::NamedTensor>& before,
                                const std::vector<nn::NamedTensor>& after);

}  // namespace ddpbench::bench
