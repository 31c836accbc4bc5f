// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// UpdateSizes: how large the terms are that the reference adds up to an update. The rounding errors
// of the update are relative to them; the update itself may be much smaller, where terms cancel
// (docs/metrics.md, "Verification").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "bench/rank/adam_sizes.h"
#include "kernels/nn/graph.h"
#include "kernels/nn/safetensors.h"
#include "kernels/ops/optimizer.h"

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

class UpdateSizes {
 public:
  // `graph` is the reference's and outlives this. `error`: as AdamSizes has it. `probe`: nullopt
  // where add_probe() is not called.
  UpdateSizes(const nn::Graph& graph, const ops::OptimizerOptions& optimizer, double error,
              const std::optional<ProbeOptions>& probe);

  // The host memory that this and the weights before and after a step take at most, for each
  // parameter.
  static std::size_t bytes_per_parameter(const ops::OptimizerOptions& optimizer);

  // Call it before the slices of a step when the graph's gradients are those of its probe. This and
  // add_slice block until the device has done its work.
  void add_probe();
  // Call it when the gradients of a slice have been added to the graph's gradients.
  void add_slice();
  // Call it after each step, with the weights before it. Returns the size of the update of each
  // tensor, in PyTorch's order.
  std::vector<double> finish_step(const std::vector<nn::NamedTensor>& before);
  // The name of a tensor with a gradient that is no finite number or too large; empty: none so far.
  const std::string& exploded() const { return exploded_; }

 private:
  std::vector<double> terms_of(const std::vector<nn::NamedTensor>& before) const;
  void mark_probed(std::size_t tensor);
  void widen_to_measured(std::vector<double>& terms) const;
  std::vector<double> descent(const std::vector<double>& terms, double lr);
  std::vector<double> adaptive(const std::vector<double>& terms,
                               const std::vector<nn::NamedTensor>& before, double lr);

  const nn::Graph& graph_;
  ops::OptimizerOptions optimizer_;
  const double error_;
  const std::optional<ProbeOptions> probing_;
  std::optional<AdamSizes> adam_;
  std::vector<nn::NamedTensor> probe_;  // the gradients of this step's probe; empty: none
  std::vector<nn::NamedTensor> sum_;    // the gradients of the slices so far
  std::vector<double> slices_;          // [tensor], the sum over slices of the squared norms
  std::vector<std::vector<float>> element_slices_;  // [tensor][element], the same, for Adam only
  std::vector<double> velocity_;                    // [tensor], the bound on the velocity's terms
  std::int64_t updates_ = 0;
  std::string exploded_;
};

// Whether training has diverged beyond comparing: the value is no finite number, or so large that
// sums over ranks overflow in one order and not in another.
bool has_exploded(double value);

// The name of the first tensor with such a value; empty: none.
std::string find_exploded(const std::vector<nn::NamedTensor>& tensors);

}  // namespace ddpbench::bench
