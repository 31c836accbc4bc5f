// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times 3x3 convolutions as direct convolution and as Winograd, and both in bf16, at the shapes of
// SimpleCNN's second layer, ResNets and VGG, on one thread.
//
//   conv_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=15
//       --benchmark_report_aggregates_only=true --benchmark_filter='56x56'
//
// The algorithms of a shape are compared by the `min` of their processor time, because what else a
// machine does only adds time. FLOP_per_s counts all of them as direct convolution (a multiply-add
// is 2).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/op_run.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/onednn_backend.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench::ops {
namespace {

using onednn::ConvAlgorithm;

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
  const auto device = make_cpu_device({.threads = 1});
  const auto stream = device->make_stream();
  device->bind_calling_thread();
  Conv2dDesc desc;
  desc.input = TensorLayout::plain({batch, layer.in, layer.extent, layer.extent});
  desc.out_channels = layer.out;
  desc.window = square_window(3, 1, 1);
  if (const std::string reason = why_no_cpu_bf16(); a.type == DataType::bf16 && !reason.empty())
    return state.SkipWithError(reason.c_str());
  auto context = std::make_shared<onednn::Context>();
  context->activations = a.type;
  auto op = onednn::make_conv2d(std::move(context), desc, a.algorithm);
  state.SetLabel(op->description());
  OpRun run({*device, *stream}, std::move(op));
  for (auto _ : state) backward ? run.backward() : run.forward();
  state.counters["FLOP_per_s"] =
      benchmark::Counter(backward ? run.op().backward_flops() : run.op().forward_flops(),
                         benchmark::Counter::kIsIterationInvariantRate);
}

double least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

void register_all() {
  for (const Layer& layer : layers())
    for (const std::int64_t batch : layer.batches)
      for (const bool backward : {false, true})
        for (const Algorithm& a : kAlgorithms) {
          const std::string name =
              fmt::format("{}x{}->{}x{}x{}/{}/{}", batch, layer.in, layer.out, layer.extent,
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
  ddpbench::ops::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
