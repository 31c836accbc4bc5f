// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times every operation of the CPU backend at SimpleCNN's sizes, forward and backward apart, and
// 3x3 convolutions as direct convolution and as Winograd, in fp32 and bf16, at the shapes of
// SimpleCNN's second layer, ResNets and VGG.
//
//   ops_bench --benchmark_filter=conv2/ --benchmark_repetitions=5
//   ops_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=15
//       --benchmark_report_aggregates_only=true --benchmark_filter='conv3x3.*56x56'
//
// The algorithms of a shape are compared by the `min` of their processor time, because what else a
// machine does only adds time.
//
// Arguments: samples per call, threads of the device. Counters: FLOP_per_s (a multiply-add is 2;
// all algorithms are counted as direct convolution), bytes_per_s (kernels/ops/traffic.h) and
// samples_per_s.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>

#include "bench/micro/op_run.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/traffic.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench::ops {
namespace {

using benchmark::Counter;
using onednn::ConvAlgorithm;

struct Cpu {
  explicit Cpu(int threads)
      : device(make_cpu_device({.threads = threads})), stream(device->make_stream()) {
    device->bind_calling_thread();
    backend = make_onednn_backend(*device);
  }
  Machine machine() const { return {*device, *stream}; }
  Buffer random(std::size_t bytes) const { return random_values(machine(), bytes, DataType::fp32); }
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<OpBackend> backend;
};

std::unique_ptr<Op> conv1(OpBackend& backend, std::int64_t batch) {
  return conv3x3(backend, image(batch, 1, 28), 32, false);
}
std::unique_ptr<Op> conv2(OpBackend& backend, std::int64_t batch) {
  return conv3x3(backend, image(batch, 32, 14), 64, true);
}
std::unique_ptr<Op> pool1(OpBackend& backend, std::int64_t batch) {
  return halve(backend, conv1(backend, batch)->plan().output);
}
std::unique_ptr<Op> pool2(OpBackend& backend, std::int64_t batch) {
  return halve(backend, conv2(backend, batch)->plan().output);
}
std::unique_ptr<Op> pool2_to_plain(OpBackend& backend, std::int64_t batch) {
  return halve_to_plain(backend, conv2(backend, batch)->plan().output);
}
std::unique_ptr<Op> fc1(OpBackend& backend, std::int64_t batch) {
  return backend.make(
      LinearDesc{.input = image(batch, 64, 7), .out_features = 128, .fuse_relu = true});
}
std::unique_ptr<Op> fc1_of_blocks(OpBackend& backend, std::int64_t batch) {
  return backend.make(LinearDesc{
      .input = pool2(backend, batch)->plan().output, .out_features = 128, .fuse_relu = true});
}
std::unique_ptr<Op> fc2(OpBackend& backend, std::int64_t batch) {
  return backend.make(LinearDesc{.input = TensorLayout::plain({batch, 128}), .out_features = 10});
}
std::unique_ptr<Op> relu(OpBackend& backend, std::int64_t batch) {
  return backend.make(ReluDesc{conv1(backend, batch)->plan().output});
}

using MakeOp = std::unique_ptr<Op> (*)(OpBackend&, std::int64_t);

void set_counters(benchmark::State& state, double flops, double bytes) {
  state.counters["samples_per_s"] =
      Counter(static_cast<double>(state.range(0)), Counter::kIsIterationInvariantRate);
  state.counters["bytes_per_s"] = Counter(bytes, Counter::kIsIterationInvariantRate);
  if (flops > 0) state.counters["FLOP_per_s"] = Counter(flops, Counter::kIsIterationInvariantRate);
}

void forward(benchmark::State& state, MakeOp make) {
  Cpu cpu(static_cast<int>(state.range(1)));
  OpRun run(cpu.machine(), make(*cpu.backend, state.range(0)));
  for (auto _ : state) run.forward();
  set_counters(state, run.op().plan().forward_flops, forward_bytes(run.op()));
  state.SetLabel(run.op().plan().description);
}

void backward(benchmark::State& state, MakeOp make) {
  Cpu cpu(static_cast<int>(state.range(1)));
  OpRun run(cpu.machine(), make(*cpu.backend, state.range(0)), make != conv1);
  for (auto _ : state) run.backward();
  set_counters(state, run.op().plan().backward_flops,
               backward_bytes(run.op(), run.input_gradients()));
  state.SetLabel(run.op().plan().description);
}

void loss(benchmark::State& state) {
  constexpr std::int64_t kClasses = 10;
  Cpu cpu(static_cast<int>(state.range(1)));
  const auto count = static_cast<std::size_t>(state.range(0)) * kClasses;
  const Buffer logits = cpu.random(count * sizeof(float)), grad = cpu.random(count * sizeof(float));
  std::vector<std::int32_t> labels;
  for (std::int64_t n = 0; n < state.range(0); ++n)
    labels.push_back(static_cast<std::int32_t>(n % kClasses));
  LossTotals totals;
  for (auto _ : state)
    cpu.backend->loss(*cpu.stream, {.batch = state.range(0), .classes = kClasses},
                      {.logits = logits.view().as<float>().data(),
                       .labels = labels.data(),
                       .samples = state.range(0),
                       .grad_logits = grad.view().as<float>().data(),
                       .totals = &totals});
  set_counters(state, 0, loss_bytes(state.range(0), kClasses));
}

// Argument 0: the number of elements; SimpleCNN has 421642 parameters.
void optimizer(benchmark::State& state, OptimizerOptions options) {
  options.lr = 1e-6;
  Cpu cpu(static_cast<int>(state.range(1)));
  const auto count = static_cast<std::size_t>(state.range(0));
  const Buffer weights = cpu.random(count * sizeof(float));
  const Buffer gradients = cpu.random(count * sizeof(float));
  const Buffer memory =
      cpu.device->allocate(optimizer_state_bytes(options, count), MemoryCategory::optimizer);
  for (auto _ : state)
    cpu.backend->update(*cpu.stream, {.weights = weights.view().as<float>().data(),
                                      .gradients = gradients.view().as<float>().data(),
                                      .state = memory.data(),
                                      .count = count,
                                      .options = options});
  set_counters(state, 0, optimizer_bytes(options, state.range(0)));
}

// Sizes of a micro-batch and of a whole batch, each on one and two threads.
void convolution_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"samples", "threads"})->ArgsProduct({{16, 256}, {1, 2}});
  b->Unit(benchmark::kMicrosecond)->UseRealTime();
}
void batch_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"samples", "threads"})->ArgsProduct({{64, 256}, {1, 2}});
  b->Unit(benchmark::kMicrosecond)->UseRealTime();
}

#define DDPBENCH_OP(name, sizes)                        \
  BENCHMARK_CAPTURE(forward, name, name)->Apply(sizes); \
  BENCHMARK_CAPTURE(backward, name, name)->Apply(sizes)

DDPBENCH_OP(conv1, convolution_sizes);
DDPBENCH_OP(conv2, convolution_sizes);
DDPBENCH_OP(pool1, convolution_sizes);
DDPBENCH_OP(pool2, convolution_sizes);
DDPBENCH_OP(pool2_to_plain, convolution_sizes);
DDPBENCH_OP(relu, convolution_sizes);
DDPBENCH_OP(fc1, batch_sizes);
DDPBENCH_OP(fc1_of_blocks, batch_sizes);
DDPBENCH_OP(fc2, batch_sizes);
BENCHMARK(loss)->Apply(batch_sizes);
// The second count does not fit into caches.
void update_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"elements", "threads"})->ArgsProduct({{421642, 25557032}, {1, 2}});
  b->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK_CAPTURE(optimizer, sgd, OptimizerOptions{})->Apply(update_sizes);
BENCHMARK_CAPTURE(optimizer, adam, OptimizerOptions{.kind = OptimizerKind::adam})
    ->Apply(update_sizes);

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
              bool backward) {
  const Cpu cpu(1);
  Conv2dDesc desc;
  desc.input = TensorLayout::plain({batch, layer.in, layer.extent, layer.extent});
  desc.out_channels = layer.out;
  desc.window = square_window(3, 1, 1);
  if (const std::string reason = why_no_cpu_bf16(); a.type == DataType::bf16 && !reason.empty())
    return state.SkipWithError(reason.c_str());
  auto context = std::make_shared<onednn::Context>();
  context->activations = a.type;
  auto op = onednn::make_conv2d(std::move(context), desc, a.algorithm);
  state.SetLabel(op->plan().description);
  OpRun run(cpu.machine(), std::move(op));
  for (auto _ : state) backward ? run.backward() : run.forward();
  state.counters["FLOP_per_s"] =
      benchmark::Counter(backward ? run.op().plan().backward_flops : run.op().plan().forward_flops,
                         benchmark::Counter::kIsIterationInvariantRate);
}

double least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

void register_convolutions() {
  for (const Layer& layer : layers())
    for (const std::int64_t batch : layer.batches)
      for (const bool backward : {false, true})
        for (const Algorithm& a : kAlgorithms) {
          const std::string name =
              fmt::format("conv3x3/{}x{}->{}x{}x{}/{}/{}", batch, layer.in, layer.out, layer.extent,
                          layer.extent, backward ? "backward" : "forward", a.name);
          benchmark::RegisterBenchmark(
              name.c_str(),
              [=, &layer](benchmark::State& state) { convolve(state, layer, batch, a, backward); })
              ->Unit(benchmark::kMillisecond)
              ->ComputeStatistics("min", least);
        }
}

}  // namespace
}  // namespace ddpbench::ops

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  ddpbench::ops::register_convolutions();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
