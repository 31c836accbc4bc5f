// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankSession: one process of a run, from rendezvous to goodbye: it makes devices, communicator,
// strategy and loader, then verifies, warms up, trains and evaluates.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/feed/batch_source.h"
#include "bench/measure/device_wait.h"
#include "bench/measure/step_recorder.h"
#include "bench/measure/step_runner.h"
#include "bench/plan/training_job.h"
#include "bench/rank/evaluation.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_result.h"
#include "bench/rank/rank_telemetry.h"
#include "bench/rank/reference_weights.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/replica.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// What the process was given by whoever started it.
struct RankInputs {
  int rank = 0;
  comm::Store* store = nullptr;                 // null when the run is one process
  std::span<const std::byte> decoded;           // the data set
  const ReferenceWeights* reference = nullptr;  // to verify against; null: do not verify
  ReferenceWeights* reference_out = nullptr;    // of the reference process: to fill
  std::function<bool()> interrupted;            // polled between steps; may be empty
};

class RankSession {
 public:
  // Collective over the run's processes. `job`, `writer` and what `inputs` points to outlive it.
  RankSession(const TrainingJob& job, const RankInputs& inputs, launch::RankWriter& writer);
  ~RankSession();

  // Everything after set-up. Throws Error; what was found until then is in the channel.
  void run();

  comm::Communicator* world() { return devices_.world.get(); }
  // After run() threw: whether the device, given a moment, does not come to an end. This object
  // must not be destroyed then: it would wait for the device again, for ever.
  bool device_hangs();

 private:
  void run_role();
  void make_devices();
  void make_strategy();
  void admit(std::size_t i, MemoryNeeds& needs);
  void observe_layers();
  PhaseObserver& observer();
  void make_source();
  void verify();
  void check_replicas_equal();
  void compute_reference();
  void warm_up();
  std::int64_t warm_up_steps();
  bool warm_up_goes_on(std::int64_t done);
  void train();
  void train_epoch(int epoch);
  void wait_for_workers(int epoch);
  void evaluate(EpochResult& epoch);
  void check_communicators();
  void steps(std::int64_t count, bool timed, int epoch);
  void one_step(bool timed, int epoch);
  ops::LossTotals take_totals();
  void publish();
  bool is_server() const { return process_.role == Role::server; }

  const TrainingJob& job_;
  RankInputs inputs_;
  launch::RankWriter& writer_;
  StrategyConfig config_;
  ProcessPlan process_;
  nn::ModelSpec model_;
  data::Dataset dataset_;
  RankResult result_;

  RankDevices devices_;
  std::shared_ptr<comm::Store> local_store_ = comm::make_local_store();  // of dp's threads
  std::vector<nn::NamedTensor> loaded_weights_;                          // of --load-model
  std::vector<double> warmup_step_s_;                                    // of this rank
  std::shared_ptr<DeviceWait> wait_;
  std::unique_ptr<StepRecorder> recorder_;
  std::unique_ptr<RangeMarker> marker_;
  std::optional<StepRanges> ranges_;  // when a profiler looks on
  std::unique_ptr<GpuSampler> sampler_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<BatchSource> source_;
  std::optional<StepRunner> runner_;
  std::optional<Evaluator> evaluator_;
};

// Makes a session and runs it; `body` does so, and what else needs it. When the session's device
// hangs, what `body` throws goes on without the session being destroyed, `left_behind` becomes
// true, and the process has to end by end_process().
void run_session(std::unique_ptr<RankSession> session,
                 const std::function<void(RankSession&)>& body, bool& left_behind);

// Ends the process without what a normal end waits for: objects that were left behind, with their
// threads, and their device.
[[noreturn]] void end_process(int exit_code);

}  // namespace ddpbench::bench
