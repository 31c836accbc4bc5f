// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ReferenceWeights: what the verification's reference computed in each step: weights, gradients and
// how large their terms are, and the state that each slice leaves (running statistics). Verified
// ranks map this memory, compare with it after each step, and begin the next step from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/safetensors.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench::bench {

// One replica's worst comparison: the one with the largest error in units of its tolerance.
struct VerificationResult {
  double max_relative_error = 0;  // |difference|_2 / size of the terms
  double tolerance = 0;           // for that error
  std::string worst_tensor;
  std::int64_t worst_step = 0;  // from 1
  std::int64_t steps = 0;       // that were compared
  // The share of the parameters in tensors that may differ by half of their stored update or more,
  // in the step in which it is smallest. Whether they were updated was hardly checked.
  double vague_share = 0;
  // How far an approximate strategy went from the reference, the only thing that is compared of it:
  // |w - w_ref| / |w_ref - w_0| over all parameters after the steps.
  double divergence = 0;
  // Why the other steps could not be compared: training diverges. Empty: all were.
  std::string diverged;
  std::uint64_t weights_hash = 0;  // equal hashes: bit-equal parameters after each step

  bool is_within_tolerance() const { return max_relative_error <= tolerance; }
};

// The weights that one update makes of given gradients, tensor by tensor.
struct ExpectedUpdate {
  std::vector<float> weights;
  std::vector<float> sizes;  // of the terms that each weight's update is the sum of
};

// How the reference measures rounding (RoundingProbe), and what follows.
struct ProbeOptions {
  double loss_factor = 1;
  double allowance = 1;  // so many times the difference of probe and step may be rounding
};
// nullopt where the tolerance needs no probe. In fp32 a probe samples the rounding of gradients
// that cancel (with batch norm). Elsewhere maps are rounded more coarsely, and otherwise on
// replicas whose losses are not scaled by a power of two: the probe then has the replicas' scale.
std::optional<ProbeOptions> probe_options(const TrainingJob& job);

double norm(std::span<const float> values);  // the Euclidean one

class ReferenceWeights {
 public:
  struct Extent {
    std::int64_t parameters = 0, tensors = 0, steps = 0;
    std::int64_t slices = 1, state_values = 0, state_tensors = 0;
    std::size_t start_bytes() const;  // weights and state with which a step begins
    std::size_t step_bytes() const;   // the same, and what the step finds
    std::size_t bytes() const;
  };
  // What an update may differ by, relative to its terms: as much as 2,000 roundings in fp32 can do.
  static constexpr double kUpdateTolerance = 0x1p-13;

  // Throws ConfigError that says how many steps fit into the memory that this process can use.
  static Extent extent_of(const TrainingJob& job, const nn::ModelSpec& model);
  static ReferenceWeights create(const Extent& extent);
  // Both throw CommError for memory of another form.
  static ReferenceWeights adopt(int fd) { return ReferenceWeights(SharedMemory::adopt(fd)); }
  static ReferenceWeights open(const std::string& handle) {
    return ReferenceWeights(SharedMemory::open(handle, SharedMemory::Use::share));
  }

  // Where replicas have a part of the network alone: all that follows is of that part.
  void restrict_to(const nn::ModelSpec& model, const nn::ModelSpec& part);

  int fd() const { return memory_.fd(); }
  std::string handle() const { return memory_.handle(); }
  std::size_t bytes() const { return memory_.view().bytes; }
  // Takes its pages from this process until they are read again.
  void unload() const;

  // Called by the reference process. `sizes`: of each tensor's gradient (GradientSizes).
  // `diverged`: why the other steps could not be stored.
  void store_start(const std::vector<nn::NamedTensor>& weights,
                   const std::vector<nn::NamedTensor>& state = {});
  void store_step(const std::vector<nn::NamedTensor>& after,
                  const std::vector<nn::NamedTensor>& gradients, std::span<const double> sizes);
  // The state after each slice of step `step` (from 1) with the sizes of what moved it
  // (state_sizes), before that step is stored.
  void store_slice_state(std::int64_t step, std::int64_t slice,
                         const std::vector<nn::NamedTensor>& after,
                         std::span<const double> state_sizes);
  void finish(const std::string& diverged = "");

  // The following require that it is complete.
  bool complete() const;
  std::int64_t steps() const;    // that were stored
  std::string diverged() const;  // empty: all were
  // All weights after `step` steps, tensor by tensor.
  std::span<const float> weights(std::int64_t step) const;
  // The first of `weights` that is not bit-equal to those after `step` steps; empty: all are.
  std::string first_difference(std::int64_t step,
                               const std::vector<nn::NamedTensor>& weights) const;
  // The state with which step `step` + 1 begins: what the first slice left after `step` steps.
  std::span<const double> state(std::int64_t step) const;
  // Throws VerificationError when these are not the starting weights, or not the starting state.
  void check_start(const std::vector<nn::NamedTensor>& weights,
                   const std::vector<nn::NamedTensor>& state) const;
  // The three below enter what they find of step `step` (from 1) into `result`. `tolerance` is the
  // relative one of a gradient (report::verification_tolerance).
  void compare_gradients(std::int64_t step, const std::vector<nn::NamedTensor>& gradients,
                         double tolerance, VerificationResult& result) const;
  // Only what is beyond rounding is entered, so `result` tells of gradients where all is well.
  void compare_update(std::int64_t step, const std::vector<nn::NamedTensor>& after,
                      const ExpectedUpdate& expected, VerificationResult& result) const;
  // Returns VerificationResult::divergence of all weights after the last step.
  double divergence_of(const std::vector<nn::NamedTensor>& weights) const;
  // The state of the replica that computed slice `slice`. Counts must be equal.
  void compare_state(std::int64_t step, std::int64_t slice,
                     const std::vector<nn::NamedTensor>& after, double tolerance,
                     VerificationResult& result) const;

 private:
  struct Header;
  explicit ReferenceWeights(SharedMemory memory);
  Header& header() const;
  // What step `step` + 1 begins with, and what it finds: the gradients and their sizes, the state
  // that each slice leaves and the sizes of what moved it.
  struct Record {
    std::span<float> weights;
    std::span<double> state;
    std::span<float> gradients;
    std::span<double> sizes, slice_states, slice_sizes;
  };
  Record record(std::int64_t step) const;
  // Takes a slice's numbers from a record's `all`; `numbers` counts those of a part of layers.
  std::span<double> of_slice(std::span<double> all, std::int64_t slice,
                             std::int64_t Extent::*numbers) const;

  SharedMemory memory_;
  Extent before_, part_;  // restrict_to(); part_.tensors = 0: there is no part
};

}  // namespace ddpbench::bench
