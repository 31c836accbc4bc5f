// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times every operation of the CUDA backend, forward and backward apart, against the limits of the
// device's memory and arithmetic.
//
//   gpu_ops_bench --benchmark_out=ops.json --benchmark_out_format=json --benchmark_repetitions=5
//   gpu_ops_bench --benchmark_filter=conv1
//
// Events on the device time recorded launches. Own kernels run at sizes that no cache holds, the
// library's at the batches of the options: at 256 samples all operands of a layer stay in the L2
// cache of a large GPU, so its share of a copy may exceed 1. Without the CUDA module or a GPU the
// program says so and exits with 3; it exits with 1 when a benchmark failed.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "base/error.h"
#include "bench/micro/op_run.h"
#include "kernels/ops/cuda_backend.h"
#include "parallel/cuda_module.h"
#include "parallel/module_library.h"

namespace ddpbench::micro {
namespace {

using benchmark::State;
using ops::ConvolutionKernels;
using ops::CudaPrecision;
using ops::image;
using ops::OpBackend;
using ops::OpCase;
using ops::OpDesc;
using ops::TensorLayout;

constexpr int kFailed = 1, kUsage = 2, kNotHere = 3;

struct GpuBenchOptions {
  std::string module;                               // its path
  int device = 0;                                   // CUDA's number
  std::size_t l2_bytes = 0;                         // 0: the device's own figure
  std::vector<std::int64_t> batches = {256, 4096};  // for the library's operations
  std::int64_t launches = 50;                       // held by one recording
  std::int64_t rounds = 20;                         // replays that are timed
  std::int64_t gemm = 8192;                         // extent of the GEMM that shows the peak
  std::string cache_directory;                      // for the choice of algorithms; empty: not kept
};

// The bytes and FLOPs of one call, as counted.
struct Work {
  double bytes = 0;
  double flops = 0;  // 0: bound by memory alone
  CudaPrecision precision = CudaPrecision::tf32;
};

CudaDeviceInfo find_device(const CudaModule& module, int ordinal) {
  const CudaProbe probe = module.probe();
  if (probe.devices.empty()) throw UnavailableError("no GPU: " + probe.reason);
  const auto found = std::ranges::find(probe.devices, ordinal, &CudaDeviceInfo::ordinal);
  if (found != probe.devices.end()) return *found;
  throw UnavailableError(
      fmt::format("--device={}: there are {} GPUs here", ordinal, probe.devices.size()));
}

class GpuBench {
 public:
  // Throws UnavailableError when there is no module or no such GPU.
  explicit GpuBench(const GpuBenchOptions& given)
      : options(given),
        module_(open_cuda_module(options.module)),
        info(find_device(module_, options.device)),
        device_(module_.make_device({.index = 0, .ordinal = options.device})) {
    const std::size_t l2_bytes = options.l2_bytes != 0 ? options.l2_bytes : info.l2_bytes;
    if (l2_bytes == 0)
      throw ConfigError("the driver does not tell the size of the L2 cache: give --l2-bytes");
    streaming_bytes = 8.0 * static_cast<double>(l2_bytes);
    device_->bind_calling_thread();
    stream_ = device_->make_stream();
    begin_ = device_->make_event();
    end_ = device_->make_event();
  }

  ops::Machine machine() { return {*device_, *stream_}; }
  OpBackend& backend(CudaPrecision precision,
                     ConvolutionKernels convolutions = ConvolutionKernels::own) {
    auto& backend = backends_[{precision, convolutions}];
    if (!backend)
      backend = module_.make_backend(*device_, {.precision = precision,
                                                .convolutions = convolutions,
                                                .cache_directory = options.cache_directory});
    return *backend;
  }
  // The number of samples whose `bytes_of_one` together are streaming_bytes.
  std::int64_t streaming_batch(double bytes_of_one) const {
    return static_cast<std::int64_t>(std::ceil(streaming_bytes / bytes_of_one));
  }

  // Reads and writes streaming_bytes.
  ops::Call copy_call() {
    const auto memory = std::make_shared<ops::Operands>(machine());
    const auto half = static_cast<std::size_t>(streaming_bytes / 2);
    std::byte* const from = memory->room(half, MemoryCategory::activations);
    std::byte* const to = memory->room(half, MemoryCategory::activations);
    return [=, this, owner = memory] { device_->copy(*stream_, {to, half}, {from, half}); };
  }

  // Times `launch`, which queues one call, as the median over the rounds of the options (the peaks
  // are medians, too), and sets the counters of `state`:
  //   bytes           counted (op_run.h)
  //   bytes_per_s     those bytes over the time
  //   share_of_copy   share of the bandwidth that a copy reaches
  //   FLOP_per_s, share_of_bound   where `work` has FLOPs; the bound is the longer time: of the
  //                   bytes at the copy's bandwidth, or of the FLOPs at the rate of a large GEMM
  void time(State& state, const Work& work, const ops::Call& launch) {
    const double copy = copy_bytes_per_s();
    const double product = work.flops > 0 ? gemm_flops_per_s(work.precision) : 0;
    const double time = seconds_of(launch, options.launches, options.rounds);
    for ([[maybe_unused]] auto _ : state) state.SetIterationTime(time);
    state.counters["bytes"] = work.bytes;
    state.counters["bytes_per_s"] = work.bytes / time;
    state.counters["share_of_copy"] = work.bytes / time / copy;
    if (work.flops == 0) return;
    state.counters["FLOP_per_s"] = work.flops / time;
    state.counters["share_of_bound"] = std::max(work.bytes / copy, work.flops / product) / time;
  }

  // Registers one benchmark, which calls time(). An exception in it becomes its error, and the
  // other benchmarks go on.
  void add(const std::string& name, const std::function<void(State&)>& run) {
    const auto guarded = [this, run](State& state) {
      try {
        run(state);
      } catch (const std::exception& error) {
        ++failures;
        state.SkipWithError(error.what());
      }
    };
    benchmark::RegisterBenchmark(name.c_str(), guarded)
        ->UseManualTime()
        ->Iterations(1)  // the median of the rounds
        ->Unit(benchmark::kMicrosecond);
  }

  const GpuBenchOptions options;

 private:
  const CudaModule& module_;

 public:
  const CudaDeviceInfo info;
  // The bytes that one launch of a kernel touches, or of the copy that it is compared with: 8 times
  // the L2 cache. Both then find as little of the previous launch in the cache.
  double streaming_bytes = 0;
  int failures = 0;

 private:
  double copy_bytes_per_s() {
    if (copy_bytes_per_s_ == 0)
      copy_bytes_per_s_ =
          streaming_bytes / seconds_of(copy_call(), options.launches, options.rounds);
    return copy_bytes_per_s_;
  }

  double gemm_flops_per_s(CudaPrecision precision) {
    double& peak = gemm_flops_per_s_[precision];
    if (peak == 0) {
      const std::int64_t extent = options.gemm;
      ops::OpRun run(machine(),
                     backend(precision).make(ops::LinearDesc{
                         .input = TensorLayout::plain({extent, extent}, compute_type(precision)),
                         .out_features = extent,
                         .bias = false}),
                     false);
      // A launch takes some milliseconds, in strict fp32 tens of them.
      peak = run.flops(true) / seconds_of([&] { run.forward(); }, 4, 5);
    }
    return peak;
  }

  // The duration of one launch, in seconds: the median over the rounds.
  double seconds_of(const ops::Call& launch, std::int64_t launches, std::int64_t rounds) {
    launch();  // loads the kernels: a recording cannot
    stream_->synchronize();
    stream_->begin_recording();
    for (std::int64_t i = 0; i < launches; ++i) launch();
    const auto recording = stream_->end_recording();
    const auto replay_s = [&] {
      stream_->record(*begin_);
      recording->replay(*stream_);
      stream_->record(*end_);
      stream_->synchronize();
      return end_->time_s() - begin_->time_s();
    };
    replay_s();  // warms up
    std::vector<double> times;
    for (std::int64_t i = 0; i < rounds; ++i) times.push_back(replay_s());
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle / static_cast<double>(launches);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_, end_;
  std::map<std::pair<CudaPrecision, ConvolutionKernels>, std::unique_ptr<OpBackend>> backends_;
  double copy_bytes_per_s_ = 0;
  std::map<CudaPrecision, double> gemm_flops_per_s_;  // of one large GEMM
};

// ---- operations of networks ----

constexpr std::int64_t kStreaming = 0;  // in place of a batch: as many as no cache holds

// The operations of a network, of which one at a time is made, so that memory does not add up.
using Network = std::vector<OpCase>(OpBackend&, std::int64_t batch, DataType);

// One or a few of each kind of operation in ResNet-50, on images of 224 x 224.
std::vector<OpCase> resnet50(OpBackend& backend, std::int64_t batch, DataType type) {
  const auto in = [&](std::int64_t channels, std::int64_t extent) {
    return maps(backend, batch, channels, extent);
  };
  const auto conv = [](const TensorLayout& input, std::int64_t out_channels,
                       const ops::Window2d& window, bool needs_grad_input = true) -> OpDesc {
    return ops::Conv2dDesc{.input = input,
                           .out_channels = out_channels,
                           .window = window,
                           .bias = false,
                           .needs_grad_input = needs_grad_input};
  };
  const auto norm = [](const TensorLayout& input, bool sum) -> OpDesc {
    return ops::BatchNorm2dDesc{.input = input, .fuse_add = sum, .fuse_relu = true};
  };
  using ops::square_window;
  const TensorLayout images = image(batch, 3, 224, type);
  const ops::MaxPool2dDesc max_pool{.input = in(64, 112), .window = square_window(3, 2, 1)};
  const ops::AdaptiveAvgPool2dDesc mean{.input = in(2048, 7), .out_h = 1, .out_w = 1};
  return {{"resnet50_conv7x7_3_64", true, {conv(images, 64, square_window(7, 2, 3), false)}, false},
          {"resnet50_norm_64_112", false, {norm(in(64, 112), false)}},
          {"resnet50_max_pool_64_112", false, {max_pool}},
          {"resnet50_conv1x1_64_256_56", true, {conv(in(64, 56), 256, square_window(1, 1))}},
          {"resnet50_conv3x3_64_64_56", true, {conv(in(64, 56), 64, square_window(3, 1, 1))}},
          {"resnet50_norm_sum_256_56", false, {norm(in(256, 56), true)}},
          {"resnet50_conv3x3_256_256_14", true, {conv(in(256, 14), 256, square_window(3, 1, 1))}},
          {"resnet50_conv1x1_1024_2048_14", true, {conv(in(1024, 14), 2048, square_window(1, 2))}},
          {"resnet50_conv3x3_512_512_7", true, {conv(in(512, 7), 512, square_window(3, 1, 1))}},
          {"resnet50_norm_2048_7", false, {norm(in(2048, 7), false)}},
          {"resnet50_avg_pool_2048_7", false, {mean}}};
}

// What add_op() times: the operation `index` of a network.
struct GpuCase {
  Network* network;
  std::size_t index;
  CudaPrecision precision;
  bool products;
  ConvolutionKernels kernels = ConvolutionKernels::own;
};

void run_op(GpuBench& bench, State& state, const GpuCase& c, bool forward, std::int64_t batch) {
  const auto describe = [&](std::int64_t samples) {
    return c.network(bench.backend(c.precision), samples, compute_type(c.precision))[c.index];
  };
  if (batch == kStreaming) {
    constexpr std::int64_t kSmall = 8;  // the bytes of so many samples give the batch
    const OpCase small = describe(kSmall);
    const auto op = small.make(bench.backend(c.precision, c.kernels));
    batch =
        bench.streaming_batch(ops::op_bytes(op->plan(), forward, small.input_gradients) / kSmall);
  }
  const OpCase of = describe(batch);
  ops::OpRun run(bench.machine(), of.make(bench.backend(c.precision, c.kernels)),
                 of.input_gradients);
  bench.time(state,
             {.bytes = ops::op_bytes(run.op().plan(), forward, of.input_gradients),
              .flops = c.products ? run.flops(forward) : 0,
              .precision = c.precision},
             [&] { run.run(forward); });
  state.counters["samples"] = static_cast<double>(batch);
  state.SetLabel(run.op().plan().description);
}

void add_op(GpuBench& bench, const std::string& name, const GpuCase& c,
            const std::vector<std::int64_t>& batches) {
  const std::string_view precision = to_string(c.precision);
  for (const bool forward : {true, false})
    for (const std::int64_t batch : batches) {
      const std::string size = batch == kStreaming ? "" : fmt::format("/batch:{}", batch);
      bench.add(
          fmt::format("{}/{}/{}{}", name, forward ? "forward" : "backward", precision, size),
          [&bench, c, forward, batch](State& state) { run_op(bench, state, c, forward, batch); });
    }
}

void add_networks(GpuBench& bench, CudaPrecision precision) {
  const auto& batches = bench.options.batches;
  const auto each = [&](Network* network, const std::vector<std::int64_t>& of_products,
                        const std::vector<std::int64_t>& of_others) {
    const auto cases = network(bench.backend(precision), 1, compute_type(precision));
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const bool products = cases[i].products;
      const GpuCase c{network, i, precision, products};
      if (cases[i].name == "conv1") {
        // Our own computes in fp32 at any precision.
        std::vector<std::int64_t> own = batches;
        own.push_back(kStreaming);
        add_op(bench, "conv1_own", {network, i, precision, false}, own);
        add_op(bench, "conv1_library", {network, i, precision, true, ConvolutionKernels::library},
               batches);
      } else if (products || precision != CudaPrecision::tf32) {  // else as in fp32
        add_op(bench, cases[i].name, c, products ? of_products : of_others);
      }
    }
  };
  each(ops::simple_cnn, batches, {kStreaming});
  // The batch of a training step, or the smallest of the options.
  const std::int64_t step = std::min<std::int64_t>(32, std::ranges::min(batches));
  each(resnet50, {step}, {step});
}

// ---- the work around the network in a step, at sizes that no cache holds ----

ops::Call mean_call(GpuBench& bench, std::int64_t count, int inputs) {
  const auto memory = std::make_shared<ops::Operands>(bench.machine());
  std::vector<const float*> from;
  for (int i = 0; i < inputs; ++i) from.push_back(memory->floats(count));
  return [=, to = memory->floats(count), &backend = bench.backend(CudaPrecision::fp32)] {
    backend.mean(memory->machine.stream, from, to, static_cast<std::size_t>(count));
  };
}

// Gathers samples in random order from a data set of equal size.
ops::Call gather_call(GpuBench& bench, std::int64_t batch, std::int64_t elements) {
  static constexpr double kMean = 0.13, kDeviation = 0.31;
  const auto memory = std::make_shared<ops::Operands>(bench.machine());
  const auto bytes = [&](std::int64_t of_one) {
    return memory->random(static_cast<std::size_t>(batch * of_one), DataType::uint8);
  };
  std::vector<std::int32_t> order(static_cast<std::size_t>(batch));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  const ops::GatherArgs args{.images = reinterpret_cast<const std::uint8_t*>(bytes(elements)),
                             .labels = reinterpret_cast<const std::uint16_t*>(bytes(2)),
                             .indices = memory->upload(order),
                             .batch = batch,
                             .sample_elements = elements,
                             .mean = {&kMean, 1},
                             .std = {&kDeviation, 1},
                             .out = memory->floats(batch * elements),
                             .labels_out = reinterpret_cast<std::int32_t*>(memory->floats(batch))};
  return [=, &backend = bench.backend(CudaPrecision::fp32)] {
    backend.gather(memory->machine.stream, args);
  };
}

// `prepare` makes the call that works on so many samples or elements.
void add_flat(GpuBench& bench, const std::string& name, const char* unit, double bytes_of_one,
              const std::function<ops::Call(std::int64_t)>& prepare) {
  bench.add(name, [&bench, unit, bytes_of_one, prepare](State& state) {
    const std::int64_t count = bench.streaming_batch(bytes_of_one);
    bench.time(state, {.bytes = bytes_of_one * static_cast<double>(count)}, prepare(count));
    state.counters[unit] = static_cast<double>(count);
  });
}

void add_step(GpuBench& bench) {
  using N = std::int64_t;
  const auto backend = [&bench]() -> OpBackend& { return bench.backend(CudaPrecision::fp32); };
  bench.add("copy", [&bench](State& state) {
    bench.time(state, {.bytes = bench.streaming_bytes}, bench.copy_call());
  });
  const std::pair<const char*, ops::OptimizerOptions> optimizers[] = {
      {"sgd", {.lr = 1e-6, .momentum = 0}},
      {"sgd_momentum", {.lr = 1e-6}},
      {"adam", {.kind = ops::OptimizerKind::adam, .lr = 1e-6}}};
  for (const auto& [name, options] : optimizers)
    add_flat(bench, name, "elements", ops::optimizer_bytes(options, 1),
             [=, &bench, options = options](N n) {
               return ops::optimizer_call(bench.machine(), backend(), options, n);
             });
  // It reads the inputs and writes their mean.
  for (const int inputs : {2, 8})
    add_flat(bench, fmt::format("mean/inputs:{}", inputs), "elements",
             sizeof(float) * (inputs + 1.0),
             [=, &bench](N n) { return mean_call(bench, n, inputs); });
  for (const int classes : {10, 1000})
    add_flat(bench, fmt::format("loss/classes:{}", classes), "samples", ops::loss_bytes(1, classes),
             [=, &bench](N n) { return ops::loss_call(bench.machine(), backend(), n, classes); });
  // It reads bytes and writes fp32. A two-byte label becomes four bytes; its index has four.
  add_flat(bench, "gather/elements:784", "samples", (1 + sizeof(float)) * 784.0 + 2 + 4 + 4,
           [&bench](N n) { return gather_call(bench, n, 784); });
}

void add_options(CLI::App& app, GpuBenchOptions& options) {
  app.footer("Options that begin with --benchmark_ are Google Benchmark's (--benchmark_help).");
  app.option_defaults()->always_capture_default();
  app.add_option("--module", options.module, "the CUDA module");
  app.add_option("--device", options.device, "CUDA's number of the GPU");
  app.add_option("--l2-bytes", options.l2_bytes, "size of the L2 cache; 0: as the driver says");
  app.add_option("--cache", options.cache_directory, "folder of the measured choice of algorithms");
  for (CLI::Option* const number :
       {app.add_option("--batches", options.batches, "samples of the library's operations")
            ->delimiter(','),
        app.add_option("--launches", options.launches, "launches in one recording"),
        app.add_option("--rounds", options.rounds, "replays that are timed"),
        app.add_option("--gemm", options.gemm, "extent of the GEMM that shows the peak")})
    number->check(CLI::PositiveNumber);
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);  // removes its own options
  GpuBenchOptions options;
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  options.module = program.parent_path().parent_path() / "lib" / "ddpbench" / kCudaModuleFile;
  CLI::App app("Benchmarks of a GPU's operations");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  GpuBench bench(options);
  add_step(bench);
  for (const CudaPrecision precision :
       {CudaPrecision::fp32, CudaPrecision::tf32, CudaPrecision::bf16}) {
    if (precision != CudaPrecision::fp32 && bench.info.compute_capability < 80) continue;
    add_networks(bench, precision);
  }
  benchmark::AddCustomContext("gpu", bench.info.name);
  benchmark::AddCustomContext("streaming_bytes", fmt::format("{:.0f}", bench.streaming_bytes));
  benchmark::AddCustomContext("launches_per_round", std::to_string(options.launches));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return bench.failures == 0 ? 0 : kFailed;
}

}  // namespace
}  // namespace ddpbench::micro

int main(int argc, char** argv) {
  try {
    return ddpbench::micro::run(argc, argv);
  } catch (const ddpbench::UnavailableError& error) {
    fmt::print(stderr, "gpu_ops_bench: skipped: {}\n", error.what());
    return ddpbench::micro::kNotHere;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return ddpbench::micro::kFailed;
  }
}
