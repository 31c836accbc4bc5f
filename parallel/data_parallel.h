// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `dp`: one process, one thread per device; device 0 is the primary. It does what nn.DataParallel
// does, with its bottleneck and its memory imbalance in plain view.
//
// Each step: scatter the batch from the primary, broadcast the parameters, forward in parallel,
// gather the outputs on the primary, compute the loss there, scatter the output gradients, backward
// in parallel, reduce the gradients to the primary, update there. The primary sends (n-1) (I/n + S
// + O/n) bytes and receives (n-1) (O/n + S), for a global batch of I bytes, outputs of O bytes and
// parameters of S bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/replica.h"
#include "parallel/strategy.h"

namespace ddpbench {

class DataParallel final : public Strategy {
 public:
  explicit DataParallel(StrategyConfig config) : config_(std::move(config)) {}

  void setup(const StrategyContext& context) override;
  void step(const StepInput& input) override;
  void reset() override;
  void publish_parameters() override;
  std::vector<Replica*> replicas() override;

 private:
  std::vector<PlannedBuffer> planned_buffers(std::size_t i, std::size_t flat_bytes);
  void run_replica(std::size_t i, const StepInput& input);
  void scatter_input(std::size_t i, const float* images);
  void replicate(std::size_t i);
  void gather_loss_scatter(std::size_t i, const std::int32_t* labels);
  void reduce(std::size_t i);
  bool is_stale(std::size_t i) const;
  void run_all(const std::function<void(std::size_t)>& work);
  PhaseObserver* observer(std::size_t i) const { return i == 0 ? context_.observer : nullptr; }
  comm::Elements all_outputs(const Buffer& buffer) const;
  comm::Elements own_outputs(float* data) const;

  StrategyConfig config_;
  StrategyContext context_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Buffer> inputs_;       // [replica], its part of the batch; the primary's is empty
  std::vector<Buffer> stale_sinks_;  // [replica], where a planted stale replica's broadcast lands
  Buffer gathered_logits_;           // on the primary, [global batch, classes]
  Buffer gathered_gradients_;
  StepInput input_;                             // input of the step that runs
  std::function<void(std::size_t)> step_work_;  // made once: no allocation in a step
  std::int64_t step_ = 0;
};

}  // namespace ddpbench
