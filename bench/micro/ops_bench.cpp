// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times every operation of the CPU backend at SimpleCNN's sizes, forward and backward apart, and
// 3x3 convolutions as direct convolution and as Winograd, in fp32 and bf16, at the shapes of
// SimpleCNN's second layer, ResNets and VGG.
//
//   ops_bench --benchmark_filter=conv2/ --benchmark_repetitions=5
//   ops_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=15
//       --benchmark_report_aggregates_only=true --benchmark_filter='conv3x3.*56x56.*threads:1'
//
// The algorithms of a shape are compared by the `min` of their processor time, because what else a
// machine does only adds time.
//
// Arguments: samples (or elements) per call, threads of the device. Counters: FLOP_per_s (a
// multiply-add is 2; all algorithms are counted as direct convolution), bytes_per_s (op_run.h) and
// samples_per_s.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "bench/micro/op_run.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/onednn/onednn_ops.h"
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
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<OpBackend> backend;
};

// A call, and the work of one.
struct Timed {
  Call call;
  double bytes = 0;
  double flops = 0;
  std::string label = {};
};

Timed timed(const std::shared_ptr<OpRun>& run, bool is_forward, bool input_gradients) {
  const OpPlan& plan = run->op().plan();
  return {[=] { run->run(is_forward); }, op_bytes(plan, is_forward, input_gradients),
          run->flops(is_forward), plan.description};
}

double least(const std::vector<double>& times) { return std::ranges::min(times); }

void register_case(const std::string& name, const std::vector<std::int64_t>& sizes,
                   const std::function<Timed(const Cpu& cpu, std::int64_t size)>& prepare) {
  const auto run = [prepare](benchmark::State& state) {
    const Cpu cpu(static_cast<int>(state.range(1)));
    Timed made;
    try {
      made = prepare(cpu, state.range(0));
    } catch (const UnavailableError& error) {
      return state.SkipWithError(error.what());
    }
    for (auto _ : state) made.call();
    const auto rate = [&](const char* counter, double of_one) {
      if (of_one > 0) state.counters[counter] = Counter(of_one, Counter::kIsIterationInvariantRate);
    };
    rate("samples_per_s", static_cast<double>(state.range(0)));
    rate("bytes_per_s", made.bytes);
    rate("FLOP_per_s", made.flops);
    state.SetLabel(made.label);
  };
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->ArgNames({"size", "threads"})
      ->ArgsProduct({sizes, {1, 2}})
      ->Unit(benchmark::kMicrosecond)
      ->ComputeStatistics("min", least)
      ->UseRealTime();
}

void register_operations() {
  const auto cases_on = [](const Cpu& cpu, std::int64_t batch) {
    return simple_cnn(*cpu.backend, batch, DataType::fp32);
  };
  const std::vector<OpCase> cases = cases_on(Cpu(1), 1);
  for (const bool is_forward : {true, false})
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (cases[i].chain.size() > 1) continue;  // CPU devices make no such operation
      register_case(fmt::format("{}/{}", is_forward ? "forward" : "backward", cases[i].name),
                    {16, 256},  // a micro-batch and a whole batch
                    [=](const Cpu& cpu, std::int64_t batch) {
                      const OpCase c = cases_on(cpu, batch)[i];
                      return timed(std::make_shared<OpRun>(cpu.machine(), c.make(*cpu.backend),
                                                           c.input_gradients),
                                   is_forward, c.input_gradients);
                    });
    }
  register_case("loss", {64, 256}, [](const Cpu& cpu, std::int64_t batch) {
    return Timed{loss_call(cpu.machine(), *cpu.backend, batch, 10), loss_bytes(batch, 10)};
  });
  for (const auto& [name, kind] :
       {std::pair("sgd", OptimizerKind::sgd), std::pair("adam", OptimizerKind::adam)})
    // SimpleCNN's parameters, and more than fit into caches.
    register_case(fmt::format("optimizer/{}", name), {421642, 25557032},
                  [kind = kind](const Cpu& cpu, std::int64_t count) {
                    const OptimizerOptions options{.kind = kind, .lr = 1e-6};
                    return Timed{optimizer_call(cpu.machine(), *cpu.backend, options, count),
                                 optimizer_bytes(options, count)};
                  });
}

// 3x3 convolutions as direct convolution and as Winograd.
void register_convolutions() {
  struct Layer {
    std::int64_t in, out, extent;
    std::vector<std::int64_t> batches;
  };
  const Layer layers[] = {{32, 64, 14, {1, 16, 256}},  // SimpleCNN's conv2
                          {64, 64, 56, {1, 4, 16}},    // ResNet-18 to -50
                          {128, 128, 28, {1, 4, 16}}, {256, 256, 14, {1, 4, 16}},
                          {512, 512, 7, {1, 4, 16}},  {64, 64, 224, {1, 4}},  // VGG-16
                          {128, 128, 112, {1, 4}},    {256, 256, 56, {1, 4}},
                          {512, 512, 28, {1, 4}},     {512, 512, 14, {1, 4, 16}}};
  const std::pair<const char*, ConvAlgorithm> algorithms[] = {
      {"direct", ConvAlgorithm::direct}, {"winograd", ConvAlgorithm::winograd}};
  for (const Layer& layer : layers)
    for (const DataType maps : {DataType::fp32, DataType::bf16})
      for (const auto& [name, algorithm] : algorithms)
        for (const bool is_forward : {true, false})
          register_case(
              fmt::format("conv3x3/{}->{}x{}x{}/{}/{}_{}", layer.in, layer.out, layer.extent,
                          layer.extent, is_forward ? "forward" : "backward", name, to_string(maps)),
              layer.batches, [=, algorithm = algorithm](const Cpu& cpu, std::int64_t batch) {
                if (const std::string reason = why_no_cpu_bf16();
                    maps == DataType::bf16 && !reason.empty())
                  throw UnavailableError(reason);
                auto context = std::make_shared<onednn::Context>();
                context->activations = maps;
                context->threads = cpu.device->thread_count();
                const Conv2dDesc desc = conv3x3(image(batch, layer.in, layer.extent), layer.out);
                return timed(std::make_shared<OpRun>(cpu.machine(),
                                                     onednn::make_conv2d(context, desc, algorithm)),
                             is_forward, true);
              });
}

}  // namespace
}  // namespace ddpbench::ops

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  ddpbench::ops::register_operations();
  ddpbench::ops::register_convolutions();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
