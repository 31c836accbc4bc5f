// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `dp`: one process, one thread per device; device 0 is the primary. It does what nn.DataParallel
// does on several devices; on one it is replicated.cpp's.
//
// Each step: scatter the batch from the primary, broadcast the parameters, forward in parallel,
// gather the outputs on the primary, compute the loss there, scatter the output gradients, backward
// in parallel, reduce the gradients to the primary, update there. The primary sends (n-1) (I/n + S
// + O/n) bytes and receives (n-1) (O/n + S), for a global batch of I bytes, outputs of O bytes and
// parameters of S bytes.
//
// The state of the graphs (running statistics) goes with the parameters; only the primary's
// survives. As in nn.DataParallel, each pass of an accumulating step does all of this but the
// update; the primary's gradients accumulate.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/ranges.h"
#include "kernels/ops/tensor_layout.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"
#include "parallel/strategies.h"
#include "parallel/strategy.h"

namespace ddpbench {
namespace {

constexpr int kPrimary = 0;

class DataParallel final : public Strategy {
 public:
  explicit DataParallel(StrategyConfig config) : config_(std::move(config)) {}

  void setup(const StrategyContext& context) override {
    context_ = context;
    const auto count = static_cast<std::size_t>(config_.replicas);
    const std::int64_t global_batch = config_.per_device_batch * config_.replicas;
    replicas_.resize(count);
    synced_.resize(count);
    inputs_.resize(count);
    stale_sinks_.resize(count);
    gathered_.resize(context.model->output_count());
    // Each replica is planned by its own leading thread, so that its pages are local to it.
    run_all([&](std::size_t i) {
      const bool primary = i == kPrimary;
      const auto add = [&](const nn::ParameterPlan& plan, MemoryNeeds& needs) {
        needs.add(planned_buffers(i, plan.weight_bytes));
      };
      synced_[i] = make_synced_batch(config_, context_, i);
      replicas_[i] = make_replica(
          config_, context_, i,
          {{.parts = synced_[i].get(), .admit = add}, primary ? global_batch : 0, primary});
      allocate(*context.devices[i], planned_buffers(i, replicas_[i]->graph().plan().weight_bytes));
    });
    pass_work_ = [this](std::size_t i) { run_replica(i, input_); };
    reset();
  }

  void step(const StepInputs& inputs) override {
    for (pass_ = 0; pass_ < config_.accumulation_steps; ++pass_) {
      input_ = inputs(pass_);
      run_all(pass_work_);
    }
    ++step_;
  }

  void reset() override {
    run_all([this](std::size_t i) { replicas_[i]->reset(); });
    step_ = 0;
  }

  // The others get theirs from the primary in the next step.
  void assign(const std::function<void(nn::Graph&)>& assign) override {
    run_all([&](std::size_t i) {
      if (i == kPrimary) assign(replicas_[i]->graph());
    });
  }

  void publish(bool) override {
    run_all([this](std::size_t i) {
      send_weights(i, replicas_[i]->graph().weights());
      broadcast_state(*context_.local[i], *replicas_[i], kPrimary);
    });
  }

  std::vector<StatePart> parts() override {
    std::vector<StatePart> parts;
    replicas_[kPrimary]->add_parts(parts);
    return parts;
  }

  std::vector<Replica*> replicas() override {
    return mapped(replicas_, [](const auto& replica) { return replica.get(); });
  }

  std::vector<Replica*> updated_replicas() override { return {replicas_[kPrimary].get()}; }

 private:
  std::vector<PlannedBuffer> planned_buffers(std::size_t i, std::size_t weight_bytes) {
    const auto samples = static_cast<std::size_t>(config_.per_device_batch);
    const auto elements = static_cast<std::size_t>(ops::element_count(context_.model->input_shape));
    const bool stale = static_cast<int>(i) == config_.faults.stale_replica;
    std::vector<PlannedBuffer> planned = {
        {&stale_sinks_[i], MemoryCategory::workspace, stale ? weight_bytes : 0}};
    if (i == kPrimary) {
      const std::size_t outputs =
          replicas_.size() * static_cast<std::size_t>(output_elements()) * sizeof(float);
      for (Gathered& gathered : gathered_) {
        planned.push_back({&gathered.logits, MemoryCategory::communication, outputs});
        planned.push_back({&gathered.gradients, MemoryCategory::communication, outputs});
      }
    } else {
      planned.push_back({&inputs_[i], MemoryCategory::input, samples * elements * sizeof(float)});
    }
    return planned;
  }

  void run_replica(std::size_t i, const StepInput& input) {
    Replica& replica = *replicas_[i];
    scatter_input(i, input.images);
    replicate(i);
    {
      const ScopedPhase phase(observer(i), Phase::forward, replica.stream());
      replica.forward(
          i == kPrimary ? input.images : reinterpret_cast<const float*>(inputs_[i].data()),
          places_of(config_, static_cast<int>(i), pass_));
    }
    gather_loss_scatter(i, input);
    {
      const ScopedPhase phase(observer(i), Phase::backward, replica.stream());
      // What was reduced to the primary in the passes before stays there.
      replica.backward({}, i == kPrimary && pass_ > 0);
    }
    reduce(i);
    if (pass_ + 1 < config_.accumulation_steps) return;
    if (i == kPrimary && !is_stale(i)) update(replica, observer(i));
    replica.end_step();
  }

  void scatter_input(std::size_t i, const float* images) {
    Stream& stream = replicas_[i]->stream();
    const ScopedPhase phase(observer(i), Phase::scatter, stream);
    const std::size_t part = static_cast<std::size_t>(
        config_.per_device_batch * ops::element_count(context_.model->input_shape));
    // The primary's part stays where it is, as in nn.DataParallel: `out` is the first part of `in`.
    auto* whole = const_cast<float*>(images);
    void* out = i == kPrimary ? static_cast<void*>(whole) : inputs_[i].data();
    context_.local[i]
        ->scatter({whole, part * replicas_.size(), DataType::fp32}, {out, part, DataType::fp32},
                  kPrimary, deferred_after(stream))
        .wait(stream);
  }

  void replicate(std::size_t i) {
    Replica& replica = *replicas_[i];
    const ScopedPhase phase(observer(i), Phase::replicate, replica.stream());
    const Buffer& target =
        i != kPrimary && is_stale(i) ? stale_sinks_[i] : replica.graph().weights();
    send_weights(i, target);
    // Later passes go on from the state that each replica has.
    if (pass_ == 0) broadcast_state(*context_.local[i], replica, kPrimary);
  }

  // The primary sends its parameters, which land in `target`.
  void send_weights(std::size_t i, const Buffer& target) {
    Stream& stream = replicas_[i]->stream();
    context_.local[i]
        ->broadcast(flat_elements(target.view()), kPrimary, deferred_after(stream))
        .wait(stream);
  }

  void gather_loss_scatter(std::size_t i, const StepInput& input) {
    Replica& replica = *replicas_[i];
    Stream& stream = replica.stream();
    const std::int64_t global_batch = config_.per_device_batch * config_.replicas;
    const float scale = config_.faults.gradient_factor(config_.replicas) /
                        static_cast<float>(global_batch * config_.accumulation_steps);
    const comm::CallOptions options = deferred_after(stream);
    {
      const ScopedPhase phase(observer(i), Phase::gather, stream);
      for (std::size_t k = 0; k < gathered_.size(); ++k) {
        context_.local[i]
            ->gather(own_outputs(replica.graph().output(k)),
                     flat_elements(gathered_[k].logits.view()), kPrimary, options)
            .wait(stream);
      }
    }
    const ScopedPhase phase(observer(i), Phase::loss, stream);
    for (std::size_t k = 0; k < gathered_.size(); ++k) {
      if (i == kPrimary) {
        replica.gathered_loss(k, gathered_[k].logits.view().as<float>().data(), input.labels, scale,
                              input.valid_weight, gathered_[k].gradients.view().as<float>().data());
      }
      context_.local[i]
          ->scatter(flat_elements(gathered_[k].gradients.view()),
                    own_outputs(replica.graph().output_gradient(k)), kPrimary, options)
          .wait(stream);
    }
  }

  void reduce(std::size_t i) {
    // The planted fault is a bucket that is never reduced; dp has one bucket, the whole buffer.
    if (config_.faults.missing_bucket >= 0) return;
    Replica& replica = *replicas_[i];
    const ScopedPhase phase(observer(i), Phase::reduce, replica.stream());
    context_.local[i]
        ->reduce(flat_elements(replica.graph().gradients().view()), comm::ReduceOp::sum, kPrimary,
                 deferred_after(replica.stream()))
        .wait(replica.stream());
  }

  bool is_stale(std::size_t i) const { return config_.faults.is_stale(static_cast<int>(i), step_); }

  void run_all(const std::function<void(std::size_t)>& work) {
    context_.group->run(work, [this](const char* reason) {
      for (const auto* peers : {&context_.local, &context_.statistics}) {
        for (comm::Communicator* one : *peers) one->abort(reason);
      }
    });
  }

  PhaseObserver* observer(std::size_t i) const { return context_.observer_of(i); }
  std::int64_t output_elements() const {  // of one replica's batch
    return config_.per_device_batch * ops::element_count(context_.model->logits_shape());
  }
  comm::Elements own_outputs(float* data) const {
    return {data, static_cast<std::size_t>(output_elements()), DataType::fp32};
  }

  StrategyConfig config_;
  StrategyContext context_;
  std::vector<std::unique_ptr<SyncedBatch>> synced_;  // [replica], null where nothing is exchanged
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Buffer> inputs_;       // [replica], its part of the batch; the primary's is empty
  std::vector<Buffer> stale_sinks_;  // [replica], where a planted stale replica's broadcast lands
  struct Gathered {
    Buffer logits, gradients;
  };
  std::vector<Gathered> gathered_;              // [output], on the primary, of the global batch
  StepInput input_;                             // input of the pass that runs
  std::function<void(std::size_t)> pass_work_;  // made once: no allocation in a step
  int pass_ = 0;                                // that runs
  std::int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_data_parallel(const StrategyConfig& config) {
  return std::make_unique<DataParallel>(config);
}

}  // namespace ddpbench
