// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PipelineStage: a rank's part of the layers, and its part of a step's passes (micro-batches),
// which go through the ranks of a pipeline one behind the other.
//
// Wire, per pass and cut: the value that crosses it, forward, and its gradient, backward. A rank
// keeps what it received of the passes in flight, and no other activation: where another forward
// came between, backward begins with the pass's forward again (Huang et al., "GPipe", NeurIPS
// 2019).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/nn/model/model.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/communicator.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"
#include "parallel/strategy.h"

namespace ddpbench {

// A rank for each stage of each replica, those of a replica one behind the other.
std::vector<RankPlan> plan_stages(const StrategyConfig& config);

struct StageTask {
  bool is_forward = true;
  int pass = 0;
  bool operator==(const StageTask&) const = default;
};
// What a stage does in a step, in this order. All stages but the last run ahead: by all passes
// (gpipe), or by as many as there are stages behind them ("one forward, one backward": Narayanan et
// al., "PipeDream", SOSP 2019, with an update after all passes). Gradients of passes are always
// added in the order of the passes, as the reference adds them.
std::vector<StageTask> plan_tasks(const StrategyConfig& config, int stage);
// Of how many passes the stage keeps what it received.
int passes_in_flight(const StrategyConfig& config, int stage);

class PipelineStage {
 public:
  // `context` is of the rank, with the whole network. `config` outlives this.
  PipelineStage(const StrategyConfig& config, const StrategyContext& context, const RankPlan& plan);

  const nn::ModelSpec& model() const { return model_; }  // the stage's layers
  std::vector<nn::ModelSpec> all_parts() const;          // those of all stages
  // Says what the replica of these layers is without.
  void adapt(ReplicaOptions& options) const;
  // What connect() allocates beside it.
  std::vector<PlannedBuffer> planned(std::size_t state_bytes);
  // `replica` outlives this. Collective over the ranks.
  void connect(Replica& replica);

  // Computes the gradients of all passes. The loss's are scaled by `grad_scale`; `backward(pass)`
  // runs the replica's backward.
  void run(const StepInputs& inputs, float grad_scale, const std::function<void(int)>& backward);
  // As Replica::evaluate, of the whole network: all ranks of the pipeline call it alike.
  void evaluate(const float* images, const std::int32_t* labels, std::int64_t samples);
  // Waits until the neighbours have taken all that was sent.
  void finish();

 private:
  bool is_first() const { return plan_.stage == 0; }
  bool is_last() const { return plan_.stage + 1 == config_.stages; }
  bool recomputes() const { return !is_last() && config_.accumulation_steps > 1; }
  // Rank 0's images need no copy where they are read before the next ones come.
  bool keeps_input() const { return !is_first() || recomputes(); }
  BufferView input_slot(int pass) const;
  BufferView output_slot(int pass) const;
  std::size_t slot_of(int pass) const { return static_cast<std::size_t>(pass) % sent_.size(); }
  comm::Communicator& forward_world() const { return *context_.world; }
  comm::Communicator& backward_world() const {
    return context_.returns != nullptr ? *context_.returns : *context_.world;
  }

  void forward_pass(int pass, const StepInputs& inputs);
  void backward_pass(int pass, float grad_scale, const std::function<void(int)>& backward);
  void compute(const float* input, int pass);
  void compute_again(int pass);
  const float* receive_input(int pass);
  void send_output(int pass);
  void wait_for(const comm::Work& work);

  const StrategyConfig& config_;
  StrategyContext context_;
  const RankPlan plan_;
  const std::vector<int> cuts_;
  const nn::ModelSpec model_;
  const std::vector<StageTask> tasks_;
  std::size_t input_bytes_ = 0, output_bytes_ = 0;  // of a slot; 0: there is none
  Replica* replica_ = nullptr;                      // from connect() on
  // [slot] what the stage reads, then its gradient; behind them [slot] what it gives, likewise.
  Buffer slots_;
  Buffer state_;  // of before a pass is computed again, which does not move it twice
  std::vector<comm::Work> sent_, returned_;  // [slot] what it gave, and the gradient of its input
  StepInput input_;                          // of the pass whose forward came last
  int computed_ = -1;                        // that pass
  int evaluated_ = 0;                        // batches
  Registrations registered_;
};

}  // namespace ddpbench
