// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How large the numbers are that a step of the reference adds up. The rounding errors of its
// gradients and statistics are relative to them; the sums may be much smaller, where terms cancel
// (docs/verification.md).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "kernels/nn/graph.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/safetensors.h"

namespace ddpbench::bench {

// How the reference measures rounding (RoundingProbe), and what follows.
struct ProbeOptions {
  double loss_factor = 1;
  double allowance = 1;  // so many times the difference of probe and step may be rounding
};
// nullopt where `job` is no reference, and where the tolerance needs no probe. In fp32 two
// computations differ by the order of sums; where gradients cancel (with batch norm), a probe
// samples their rounding. Elsewhere maps are rounded more coarsely, equally in the reference and on
// replicas whose losses are scaled by a power of two more. By another factor they are not, and the
// probe then has the replicas' scale.
std::optional<ProbeOptions> probe_options(const TrainingJob& job);

class GradientSizes {
 public:
  // The host memory that this takes at most, for each parameter: the gradients of the probe, of the
  // slices so far, and with one more.
  static constexpr std::size_t kBytesPerParameter = 3 * sizeof(float);

  // `graph` is the reference's and outlives this. `error`: the bound on the error of a gradient
  // relative to its terms, above 0 (report::verification_tolerance). `probe`: nullopt where
  // add_probe() is not called.
  GradientSizes(const nn::Graph& graph, double error, const std::optional<ProbeOptions>& probe)
      : graph_(graph), error_(error), probing_(probe) {}

  // Call it before the slices of a step when the graph's gradients are those of its probe. This and
  // add_slice block until the device has done its work.
  void add_probe();
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
// forward pass in training. These give the mean and the standard deviation sigma of each channel in
// the batch. With the momentum m, the size of a running mean is the norm over channels of
// m (|mean| + sigma), that of a running variance the norm of m sigma (|mean| + sigma). The size of
// a count is 0, because counts are exact.
std::vector<double> state_sizes(const nn::ModelSpec& model,
                                const std::vector<nn::NamedTensor>& before,
                                const std::vector<nn::NamedTensor>& after);

// Whether training has diverged beyond comparing: the value is no finite number, or so large that
// its square or sums over ranks overflow in one computation and not in another.
bool has_exploded(double value);

// The name of the first tensor with such a value; empty: none.
std::string find_exploded(const std::vector<nn::NamedTensor>& tensors);

}  // namespace ddpbench::bench
