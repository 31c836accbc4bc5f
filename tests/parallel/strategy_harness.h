// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs all processes of a strategy as threads of the test, over shm between threads, on made-up
// data.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/nn/safetensors.h"
#include "kernels/runtime/phase.h"
#include "parallel/comm/communicator.h"
#include "parallel/strategies.h"
#include "parallel/strategy.h"

namespace ddpbench::test {

struct HarnessOptions {
  int steps = 3;
  int first_step = 0;    // whose batch the first one takes
  int overflow_in = -1;  // the step whose last image on the last replica has a huge pixel
  int resumed_at = 0;    // with `resumed`: the steps that were taken before it was saved
  const std::vector<nn::NamedTensor>* resumed = nullptr;
  // What gather_state gives after so many steps is written beside their number.
  std::map<int, std::vector<nn::NamedTensor>>* saves = nullptr;
  std::uint64_t seed = 7;
  bool reset_in_between = false;                       // run the steps, reset, run them again
  PhaseObserver* observer = nullptr;                   // observes process 0
  std::vector<PhaseObserver*> further_observers = {};  // of its further replicas
  float factor = 1;            // by which all parameters are multiplied after each step
  bool restore_state = false;  // assign the state of step 0 between steps
  int all_ignored_in = -1;     // the step in which the loss ignores all labels
  // As RoundingProbe::computed and StrategyContext::slice_added, with the graph of the reference.
  std::function<void(const nn::Graph&)> probed = {};
  std::function<void(const nn::Graph&)> slice_added = {};
  double probe_factor = 0.7;
  comm::AllReduceAlgorithm all_reduce = comm::AllReduceAlgorithm::automatic;
  const StrategyTraits* row = nullptr;  // of a strategy that is not in the table
};

struct HarnessResult {
  std::vector<std::vector<nn::NamedTensor>> weights;  // [replica], at the end
  std::vector<std::vector<nn::NamedTensor>> state;    // [replica], before it is published
  // [replica] of the last step, where replicas are updated.
  std::vector<std::vector<nn::NamedTensor>> gradients;
  int assigned = 0;     // graphs whose state was assigned after the first step
  double loss_sum = 0;  // sum of the last pass over all replicas
  std::uint64_t counted = 0;
  float largest_gradient() const;       // of the last step; NaN and infinity count as infinite
  std::vector<std::size_t> peak_bytes;  // [replica]
  // What workers, then servers, took from others, beginning with the setup.
  std::vector<comm::Traffic> taken;
};

// A small network with two convolutions, a pool of odd size and two linear layers.
nn::ModelSpec small_model();
// The same with batch norm behind the convolutions.
nn::ModelSpec normalized_model();

// A network whose loss smooths its labels and ignores class 2.
nn::ModelSpec smoothing_model();
// Two heads, of which the second is auxiliary; both ignore class 2.
nn::ModelSpec auxiliary_model();
// Convolutions only: logits of [4, 8, 7], of which the label 255 is ignored.
nn::ModelSpec map_model();

// A network whose input and features are dropped.
nn::ModelSpec dropping_model();

// The global batch of a step depends on the step and the global batch size alone. So runs of equal
// global batch see the same samples; shards take turns in it, as the sampler's do. Where a label is
// ignored, half of them are, the fewer the later the sample.
HarnessResult run_strategy(const nn::ModelSpec& model, const StrategyConfig& config,
                           const HarnessOptions& options = {});

// The tensors of the replica whose parts ranks [first, first + parts) have.
std::vector<nn::NamedTensor> joined(const std::vector<std::vector<nn::NamedTensor>>& of_ranks,
                                    int first, int parts);

// The maximum over tensors of |dw - dw_ref| / |dw_ref|; d is the change since `start`.
double relative_error(const std::vector<nn::NamedTensor>& start,
                      const std::vector<nn::NamedTensor>& weights,
                      const std::vector<nn::NamedTensor>& reference);

// The weights of step 0.
std::vector<nn::NamedTensor> starting_weights(const nn::ModelSpec& model, std::uint64_t seed);

}  // namespace ddpbench::test
