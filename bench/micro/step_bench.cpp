// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times a training step on a CPU device of one thread: forward, loss, backward, SGD.
//
//   step_bench --benchmark_repetitions=5 --benchmark_filter=batch:256
//   step_bench --benchmark_filter='resnet50|256/micro:-1' --benchmark_repetitions=10
//       --benchmark_enable_random_interleaving=true
//
// Arguments: batch, and samples of a micro-batch (-1: as the graph chooses, 0: none). Those whose
// names end with _bf16 are in bf16. Counters: samples_per_s, GFLOP_per_s of the convolutions and
// linear layers, MB of activations and workspace. On a busy machine compare processor times.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>

#include "kernels/nn/graph.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/weights.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench {
namespace {

class TrainingStep {
 public:
  TrainingStep(const std::string& model, std::int64_t batch,
               std::optional<std::int64_t> micro_batch, DataType activations)
      : device_(make_cpu_device({})),
        backend_(ops::make_onednn_backend(*device_, activations)),
        stream_(device_->make_stream()),
        graph_(nn::load_model_file(DDPBENCH_SOURCE_DIR "/configs/models/" + model + ".json"),
               *device_, *backend_, {.batch = batch, .micro_batch = micro_batch}) {
    device_->bind_calling_thread();
    nn::initialize_parameters(graph_, 1);
    const auto pixels =
        static_cast<std::size_t>(batch * ops::element_count(graph_.model().input_shape));
    input_ = device_->allocate(pixels * sizeof(float), MemoryCategory::input);
    labels_ = device_->allocate(static_cast<std::size_t>(batch) * 4, MemoryCategory::input);
    state_ =
        device_->allocate(ops::optimizer_state_bytes({}, graph_.plan().flat_bytes / sizeof(float)),
                          MemoryCategory::optimizer);
    totals_ = device_->allocate(sizeof(ops::LossTotals), MemoryCategory::workspace);
    const std::int64_t classes = graph_.model().classes();
    std::mt19937 random(1);
    std::normal_distribution<float> pixel;
    for (float& value : input_.view().as<float>()) value = pixel(random);
    for (std::int32_t& label : labels_.view().as<std::int32_t>()) {
      label = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(classes));
    }
  }

  void run() {
    graph_.forward(*stream_, floats(input_));
    backend_->loss(*stream_, {.batch = graph_.batch(), .classes = graph_.model().classes()},
                   {.logits = graph_.output(),
                    .labels = reinterpret_cast<std::int32_t*>(labels_.data()),
                    .samples = graph_.batch(),
                    .grad_scale = 1.0f / static_cast<float>(graph_.batch()),
                    .grad_logits = graph_.output_gradient(),
                    .totals = reinterpret_cast<ops::LossTotals*>(totals_.data())});
    graph_.backward(*stream_);
    backend_->update(*stream_, {.weights = floats(graph_.weights()),
                                .gradients = floats(graph_.gradients()),
                                .state = state_.data(),
                                .count = graph_.plan().flat_bytes / sizeof(float),
                                .options = {}});
    stream_->synchronize();
  }

  const nn::Graph& graph() const { return graph_; }
  double megabytes(MemoryCategory category) const {
    return 1e-6 *
           static_cast<double>(device_->memory().peak_bytes[static_cast<std::size_t>(category)]);
  }

 private:
  static float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

  std::unique_ptr<Device> device_;
  std::unique_ptr<ops::OpBackend> backend_;
  std::unique_ptr<Stream> stream_;
  nn::Graph graph_;
  Buffer input_, labels_, state_, totals_;
};

void time_step(benchmark::State& state, const char* model, DataType activations) {
  const std::string reason = ops::why_no_cpu_bf16();
  if (activations == DataType::bf16 && !reason.empty()) return state.SkipWithError(reason.c_str());
  const std::int64_t micro_batch = state.range(1);
  TrainingStep step(model, state.range(0),
                    micro_batch < 0 ? std::nullopt : std::optional<std::int64_t>(micro_batch),
                    activations);
  step.run();
  for ([[maybe_unused]] auto _ : state) step.run();
  const auto count = static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["samples_per_s"] =
      Counter(count * static_cast<double>(state.range(0)), Counter::kIsRate);
  state.counters["GFLOP_per_s"] =
      Counter(count * step.graph().step_flops() * 1e-9, Counter::kIsRate);
  state.counters["activations_MB"] = step.megabytes(MemoryCategory::activations);
  state.counters["workspace_MB"] = step.megabytes(MemoryCategory::workspace);
  state.SetLabel("micro-batch " + std::to_string(step.graph().micro_batch()));
}

struct Case {
  const char* model;
  DataType activations;
  std::vector<std::vector<std::int64_t>> sizes;  // batch, micro-batch
};

const Case kCases[] = {
    {"simple_cnn",
     DataType::fp32,
     {{64, -1}, {128, -1}, {256, -1}, {256, 0}, {256, 8}, {256, 16}, {256, 32}}},
    {"simple_cnn", DataType::bf16, {{256, -1}, {256, 16}, {256, 32}}},
    {"resnet50", DataType::fp32, {{16, -1}}},
    {"resnet50", DataType::bf16, {{16, -1}}},
};

void register_cases() {
  for (const Case& c : kCases) {
    const std::string name =
        std::string(c.model) + (c.activations == DataType::bf16 ? "_bf16" : "");
    auto* const timed = benchmark::RegisterBenchmark(
        name.c_str(), [&c](benchmark::State& state) { time_step(state, c.model, c.activations); });
    for (const auto& size : c.sizes) timed->Args(size);
    timed->ArgNames({"batch", "micro"})->Unit(benchmark::kMillisecond)->UseRealTime();
  }
}

}  // namespace
}  // namespace ddpbench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  ddpbench::register_cases();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
