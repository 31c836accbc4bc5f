// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times every operation of the CPU backend at SimpleCNN's sizes, forward and backward apart, and
// 3x3 convolutions as direct convolution and as Winograd, in fp32 and bf16, at the shapes of
// SimpleCNN's second layer, ResNets and VGG. And training steps on one thread: forward, loss,
// backward, SGD.
//
//   ops_bench --benchmark_filter=conv2/ --benchmark_repetitions=5
//   ops_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=15
//       --benchmark_report_aggregates_only=true --benchmark_filter='conv3x3.*56x56'
//   ops_bench --benchmark_filter='step/resnet50|256/micro:-1' --benchmark_repetitions=10
//
// The algorithms of a shape are compared by the `min` of their processor time, because what else a
// machine does only adds time.
//
// Arguments: samples per call, threads of the device; of a step, batch and samples of a micro-batch
// (-1: as the graph chooses, 0: none). Counters: FLOP_per_s (a multiply-add is 2; all algorithms
// are counted as direct convolution), bytes_per_s (kernels/ops/traffic.h) and samples_per_s.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "bench/micro/op_run.h"
#include "kernels/nn/graph.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/weights.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/traffic.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench::ops {
namespace {

using benchmark::Counter;
using onednn::ConvAlgorithm;

struct Cpu {
  explicit Cpu(int threads, DataType activations = DataType::fp32)
      : device(make_cpu_device({.threads = threads})), stream(device->make_stream()) {
    device->bind_calling_thread();
    backend = make_onednn_backend(*device, activations);
  }
  Machine machine() const { return {*device, *stream}; }
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<OpBackend> backend;
};

void set_counters(benchmark::State& state, double flops, double bytes) {
  state.counters["samples_per_s"] =
      Counter(static_cast<double>(state.range(0)), Counter::kIsIterationInvariantRate);
  if (bytes > 0) state.counters["bytes_per_s"] = Counter(bytes, Counter::kIsIterationInvariantRate);
  if (flops > 0) state.counters["FLOP_per_s"] = Counter(flops, Counter::kIsIterationInvariantRate);
}

void operation(benchmark::State& state, const OpCase& c, bool is_forward) {
  Cpu cpu(static_cast<int>(state.range(1)));
  OpRun run(cpu.machine(),
            cpu.backend->make(c.describe(*cpu.backend, state.range(0), DataType::fp32)),
            c.input_gradients);
  for (auto _ : state) run.run(is_forward);
  set_counters(state, run.flops(is_forward), op_bytes(run.op(), is_forward, c.input_gradients));
  state.SetLabel(run.op().plan().description);
}

void loss(benchmark::State& state) {
  constexpr std::int64_t kClasses = 10;
  Cpu cpu(static_cast<int>(state.range(1)));
  const Call call = loss_call(cpu.machine(), *cpu.backend, state.range(0), kClasses);
  for (auto _ : state) call();
  set_counters(state, 0, loss_bytes(state.range(0), kClasses));
}

// Argument 0: the number of elements; SimpleCNN has 421642 parameters.
void optimizer(benchmark::State& state, OptimizerOptions options) {
  options.lr = 1e-6;
  Cpu cpu(static_cast<int>(state.range(1)));
  const Call call = optimizer_call(cpu.machine(), *cpu.backend, options, state.range(0));
  for (auto _ : state) call();
  set_counters(state, 0, optimizer_bytes(options, state.range(0)));
}

void register_case(const std::string& name, const std::function<void(benchmark::State&)>& run,
                   const std::vector<std::int64_t>& sizes) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->ArgNames({"size", "threads"})
      ->ArgsProduct({sizes, {1, 2}})
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

void register_operations() {
  std::vector<OpCase> cases(std::begin(kOpCases), std::end(kOpCases));
  cases.push_back(kConv1);
  for (const bool is_forward : {true, false})
    for (const OpCase& c : cases)
      register_case(fmt::format("{}/{}", is_forward ? "forward" : "backward", c.name),
                    [=](benchmark::State& state) { operation(state, c, is_forward); },
                    {16, 256});  // a micro-batch and a whole batch
  register_case("loss", loss, {64, 256});
  for (const auto& [name, kind] :
       {std::pair("sgd", OptimizerKind::sgd), std::pair("adam", OptimizerKind::adam)})
    register_case(fmt::format("optimizer/{}", name),
                  [kind = kind](benchmark::State& state) { optimizer(state, {.kind = kind}); },
                  {421642, 25557032});  // the second count does not fit into caches
}

// 3x3 convolutions as direct convolution and as Winograd, on one thread.
struct Layer {
  std::int64_t in, out, extent;
  std::vector<std::int64_t> batches;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> kLayers = {
      {32, 64, 14, {1, 16, 256}},  // SimpleCNN's conv2
      {64, 64, 56, {1, 4, 16}},    // ResNet-18 to -50
      {128, 128, 28, {1, 4, 16}}, {256, 256, 14, {1, 4, 16}},
      {512, 512, 7, {1, 4, 16}},  {64, 64, 224, {1, 4}},  // VGG-16
      {128, 128, 112, {1, 4}},    {256, 256, 56, {1, 4}},
      {512, 512, 28, {1, 4}},     {512, 512, 14, {1, 4, 16}},
  };
  return kLayers;
}

struct Algorithm {
  const char* name;
  ConvAlgorithm algorithm;
  DataType type = DataType::fp32;  // of the maps
};
constexpr Algorithm kAlgorithms[] = {{"direct", ConvAlgorithm::direct},
                                     {"winograd", ConvAlgorithm::winograd},
                                     {"direct_bf16", ConvAlgorithm::direct, DataType::bf16},
                                     {"winograd_bf16", ConvAlgorithm::winograd, DataType::bf16}};

void convolve(benchmark::State& state, const Layer& layer, std::int64_t batch, const Algorithm& a,
              bool is_forward) {
  const Cpu cpu(1);
  if (const std::string reason = why_no_cpu_bf16(); a.type == DataType::bf16 && !reason.empty())
    return state.SkipWithError(reason.c_str());
  auto context = std::make_shared<onednn::Context>();
  context->activations = a.type;
  const Conv2dDesc desc{.input = image(batch, layer.in, layer.extent),
                        .out_channels = layer.out,
                        .window = square_window(3, 1, 1)};
  OpRun run(cpu.machine(), onednn::make_conv2d(std::move(context), desc, a.algorithm));
  state.SetLabel(run.op().plan().description);
  for (auto _ : state) run.run(is_forward);
  state.counters["FLOP_per_s"] = Counter(run.flops(is_forward), Counter::kIsIterationInvariantRate);
}

double least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

void register_convolutions() {
  for (const Layer& layer : layers())
    for (const std::int64_t batch : layer.batches)
      for (const bool is_forward : {true, false})
        for (const Algorithm& a : kAlgorithms) {
          const std::string name =
              fmt::format("conv3x3/{}x{}->{}x{}x{}/{}/{}", batch, layer.in, layer.out, layer.extent,
                          layer.extent, is_forward ? "forward" : "backward", a.name);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=, &layer](benchmark::State& state) {
                                         convolve(state, layer, batch, a, is_forward);
                                       })
              ->Unit(benchmark::kMillisecond)
              ->ComputeStatistics("min", least);
        }
}

class TrainingStep {
 public:
  TrainingStep(const std::string& model, std::int64_t batch,
               std::optional<std::int64_t> micro_batch, DataType activations)
      : cpu_(1, activations),
        graph_(nn::load_model_file(DDPBENCH_SOURCE_DIR "/configs/models/" + model + ".json"),
               *cpu_.device, *cpu_.backend, {.batch = batch, .micro_batch = micro_batch}),
        memory_(cpu_.machine()),
        input_(memory_.floats(batch * element_count(graph_.model().input_shape))) {
    nn::initialize_parameters(graph_, 1);
    const std::size_t elements = graph_.plan().flat_bytes / sizeof(float);
    loss_ = {.logits = graph_.output(),
             .labels = memory_.upload(labels_of(batch, graph_.model().classes())),
             .samples = batch,
             .grad_scale = 1.0F / static_cast<float>(batch),
             .grad_logits = graph_.output_gradient(),
             .totals = memory_.upload(std::vector<LossTotals>(1))};
    update_ = {
        .weights = reinterpret_cast<float*>(graph_.weights().data()),
        .gradients = reinterpret_cast<float*>(graph_.gradients().data()),
        .state = memory_.room(optimizer_state_bytes({}, elements), MemoryCategory::optimizer),
        .count = elements,
        .options = {}};
  }

  void run() {
    Stream& stream = *cpu_.stream;
    graph_.forward(stream, input_);
    cpu_.backend->loss(stream, {.batch = graph_.batch(), .classes = graph_.model().classes()},
                       loss_);
    graph_.backward(stream);
    cpu_.backend->update(stream, update_);
    stream.synchronize();
  }
  const nn::Graph& graph() const { return graph_; }

 private:
  Cpu cpu_;
  nn::Graph graph_;
  Operands memory_;
  float* input_;
  LossArgs loss_;
  OptimizerArgs update_;
};

void training_step(benchmark::State& state, const char* model, DataType activations) {
  const std::string reason = why_no_cpu_bf16();
  if (activations == DataType::bf16 && !reason.empty()) return state.SkipWithError(reason.c_str());
  const std::int64_t micro_batch = state.range(1);
  TrainingStep step(model, state.range(0),
                    micro_batch < 0 ? std::nullopt : std::optional(micro_batch), activations);
  step.run();
  for (auto _ : state) step.run();
  set_counters(state, step.graph().step_flops(), 0);
  state.SetLabel(fmt::format("micro-batch {}", step.graph().micro_batch()));
}

void register_steps() {
  const auto add = [](const char* model, DataType activations,
                      const std::vector<std::vector<std::int64_t>>& sizes) {
    const std::string name = fmt::format("step/{}/{}", model, to_string(activations));
    auto* const timed = benchmark::RegisterBenchmark(
        name.c_str(), [=](benchmark::State& state) { training_step(state, model, activations); });
    for (const auto& size : sizes) timed->Args(size);
    timed->ArgNames({"batch", "micro"})->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add("simple_cnn", DataType::fp32,
      {{64, -1}, {128, -1}, {256, -1}, {256, 0}, {256, 8}, {256, 16}, {256, 32}});
  add("simple_cnn", DataType::bf16, {{256, -1}, {256, 16}, {256, 32}});
  for (const DataType activations : {DataType::fp32, DataType::bf16}) {
    add("resnet50", activations, {{16, -1}});
  }
}

}  // namespace
}  // namespace ddpbench::ops

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  ddpbench::ops::register_operations();
  ddpbench::ops::register_convolutions();
  ddpbench::ops::register_steps();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
