// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankTrainer: all that one rank of a run needs to take steps (devices, communicator, strategy,
// observers, batches), and how it takes them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/feed/batch_source.h"
#include "bench/host/gpu_sampler.h"
#include "bench/measure/device_wait.h"
#include "bench/measure/replica_recorder.h"
#include "bench/measure/step_recorder.h"
#include "bench/plan/training_job.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_result.h"
#include "bench/rank/reference_weights.h"
#include "datasets/dataset.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/safetensors.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/replica.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// What the rank gets from who started it.
struct RankInputs {
  int rank = 0;
  std::shared_ptr<comm::Store> store;         // null when the run is one rank
  std::span<const std::byte> decoded;         // the data set
  ReferenceWeights* reference = nullptr;      // to verify against; null: no verification
  ReferenceWeights* reference_out = nullptr;  // the reference process fills it
  InterpreterLock* interpreter = nullptr;     // with --emulate-gil: that of the process
  std::string address;                        // see WorldOptions; may be empty
  std::string host;                           // this host's name in the report; empty: its own
  bool measures_clock = false;                // of its host
};

struct TestTotals {
  ops::LossTotals loss;
  report::ClassCounts classes;  // of networks that predict maps

  TestTotals& operator+=(const TestTotals& part) {
    loss += part.loss;
    report::add_counts(classes, part.classes);
    return *this;
  }
};

class RankTrainer {
 public:
  // Collective over the run's ranks. `job`, `writer` and the targets of `inputs` outlive it.
  // Throws Error, after telling the peers that this rank does not come.
  RankTrainer(const TrainingJob& job, const RankInputs& inputs, launch::RankWriter& writer);
  RankTrainer(const RankTrainer&) = delete;
  RankTrainer& operator=(const RankTrainer&) = delete;
  ~RankTrainer();

  // Takes `count` steps from step `first` of `epoch` on, over several epochs if need be, until
  // `goes_on` (may be empty) returns false after one.
  void take_steps(std::int64_t count, bool timed, int epoch,
                  const std::function<bool()>& goes_on = {}, std::int64_t first = 0);
  // With --resume-training: sets all state to what was saved. After Strategy::reset; collective.
  void resume();
  // In a reference: calls `probed` from now on as RoundingProbe::computed, and `added` as
  // StrategyContext::slice_added. Empty: no more.
  void observe_slices(std::function<void()> probed, std::function<void()> added) {
    probed_ = std::move(probed);
    slice_added_ = std::move(added);
  }
  // Returns loss and hits of the training samples since the last call.
  ops::LossTotals take_totals();
  // Returns loss and hits of the test set, summed over this rank's part of it: test_samples().
  TestTotals evaluate();
  std::int64_t test_samples() const;
  // Tells the peers that this rank has failed.
  void abort(const std::string& reason);
  // With --trace, on a server that has ended: hands over what it did.
  void publish_server_trace() {
    if (server_trace_) server_trace_->publish();
  }

  const TrainingJob& job() const { return job_; }
  const RankInputs& inputs() const { return inputs_; }
  const RankPlan& plan() const { return plan_; }
  bool is_server() const { return plan_.role == Role::server; }
  const nn::ModelSpec& model() const { return model_; }
  // What crossed the links in the first cycle of steps (cycle_steps). Before that it has neither a
  // value nor a reason.
  const Known<std::vector<LinkTraffic>>& traffic() const { return traffic_; }
  // With --trace: the calls that the numbers in the trace stand for.
  const std::vector<std::string>& calls() const { return calls_; }
  RankDevices& devices() { return devices_; }
  comm::Communicator* world() { return devices_.world.get(); }  // null for one rank
  double now_s() const { return devices_.devices[0]->now_s(); }
  // What reading files and handing their state to the ranks took; empty where there are none.
  const std::optional<double>& load_s() const { return load_s_; }
  Strategy& strategy() { return *strategy_; }
  StepRecorder& recorder() { return *recorder_; }
  GpuSampler* sampler() { return sampler_.get(); }  // null on CPU devices and with --observe=off

 private:
  void make_devices();
  void make_recorder();
  void make_strategy();
  void admit(std::size_t i, MemoryNeeds& needs);
  void observe_calls();
  void make_source();
  void take_step(bool timed, int epoch, std::int64_t cycle_step);
  StepInput input_of(int pass);
  void count_traffic();
  // The devices of the rank `peer` of a communicator, and of this rank.
  std::pair<int, int> device_numbers(const comm::Communicator& peers, int peer) const;
  // The samples of the test set that local replica `i` evaluates: begin and end. Each replica of
  // the run takes a contiguous part, so that every sample counts once.
  std::pair<std::int64_t, std::int64_t> test_part(std::size_t i) const;
  TestTotals evaluate_part(std::size_t i);
  void count_classes(const data::BatchBuffer& batch, std::span<const std::int32_t> predicted,
                     report::ClassCounts& counts) const;

  const TrainingJob& job_;
  RankInputs inputs_;
  launch::RankWriter& writer_;
  StrategyConfig config_;
  RankPlan plan_;
  nn::ModelSpec model_;
  data::Dataset dataset_;
  std::vector<std::string> calls_;
  Known<std::vector<LinkTraffic>> traffic_;

  CallMarks calls_made_;  // of devices_.world and .control
  RankDevices devices_;
  std::shared_ptr<comm::Store> local_store_ = comm::make_local_store();  // for the threads of dp
  std::vector<nn::NamedTensor> loaded_weights_;  // of --load-model or --resume-training
  std::vector<nn::NamedTensor> resumed_;         // what else that has
  std::optional<double> load_s_;
  std::function<void()> probed_, slice_added_;
  std::shared_ptr<DeviceWait> wait_;
  std::unique_ptr<RangeMarker> marker_;  // when a profiler listens
  std::unique_ptr<StepRecorder> recorder_;
  std::optional<ServerTrace> server_trace_;  // of a server, with --trace
  std::unique_ptr<GpuSampler> sampler_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<BatchSource> source_;
  std::optional<StepRunner> runner_;
  StepInputs inputs_of_step_ = [this](int pass) { return input_of(pass); };
  std::vector<StepInput> taken_;   // of the passes of this step
  std::vector<BatchMemory> kept_;  // [pass] copies for a reference that takes passes twice
  // The first evaluation makes these: [local replica].
  std::vector<BatchMemory> test_batches_;
  std::vector<std::unique_ptr<Event>> evaluated_;  // the batch in that memory
};

}  // namespace ddpbench::bench
