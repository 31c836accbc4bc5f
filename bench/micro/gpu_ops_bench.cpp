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
#include "kernels/ops/traffic.h"
#include "parallel/cuda_module.h"
#include "parallel/module_library.h"

namespace ddpbench::micro {
namespace {

using benchmark::State;
using ops::ConvolutionKernels;
using ops::CudaPrecision;
using ops::image;
using ops::Op;
using ops::OpBackend;
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

DataType type_of(CudaPrecision precision) {
  return precision == CudaPrecision::bf16 ? DataType::bf16 : DataType::fp32;
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
  //   bytes           counted (kernels/ops/traffic.h)
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
                         .input = TensorLayout::plain({extent, extent}, type_of(precision)),
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

// An operation. Each benchmark makes it anew, so that memory does not add up.
struct GpuCase {
  std::string name;
  CudaPrecision precision;
  std::function<std::unique_ptr<Op>(std::int64_t batch)> make;
  bool input_gradients = true;
  bool products = false;  // bound by arithmetic, too
};

void run_op(GpuBench& bench, State& state, const GpuCase& c, bool forward, std::int64_t batch) {
  constexpr std::int64_t kSmall = 8;  // the bytes of so many samples give the batch
  if (batch == kStreaming)
    batch =
        bench.streaming_batch(ops::op_bytes(*c.make(kSmall), forward, c.input_gradients) / kSmall);
  ops::OpRun run(bench.machine(), c.make(batch), c.input_gradients);
  bench.time(state,
             {.bytes = ops::op_bytes(run.op(), forward, c.input_gradients),
              .flops = c.products ? run.flops(forward) : 0,
              .precision = c.precision},
             [&] { run.run(forward); });
  state.counters["samples"] = static_cast<double>(batch);
  state.SetLabel(run.op().plan().description);
}

std::string name_of(CudaPrecision precision) {
  if (precision == CudaPrecision::fp32) return "fp32";
  return precision == CudaPrecision::tf32 ? "tf32" : "bf16";
}

void add_op(GpuBench& bench, const GpuCase& c, const std::vector<std::int64_t>& batches) {
  for (const bool forward : {true, false})
    for (const std::int64_t batch : batches) {
      std::string name =
          fmt::format("{}/{}/{}", c.name, forward ? "forward" : "backward", name_of(c.precision));
      if (batch != kStreaming) name += fmt::format("/batch:{}", batch);
      bench.add(name, [&bench, c, forward, batch](State& state) {
        run_op(bench, state, c, forward, batch);
      });
    }
}

void add_simple_cnn(GpuBench& bench, CudaPrecision precision) {
  const auto& batches = bench.options.batches;
  const auto add = [&](const std::string& name, const ops::OpCase& c, bool products,
                       ConvolutionKernels kernels, const std::vector<std::int64_t>& of) {
    add_op(bench,
           {.name = name,
            .precision = precision,
            .make =
                [&bench, &c, precision, kernels](std::int64_t batch) {
                  OpBackend& backend = bench.backend(precision, kernels);
                  return backend.make(c.describe(backend, batch, type_of(precision)));
                },
            .input_gradients = c.input_gradients,
            .products = products},
           of);
  };
  std::vector<std::int64_t> own = batches;
  own.push_back(kStreaming);
  // Our own compute in fp32 at any precision.
  add("conv1_own", ops::kConv1, false, ConvolutionKernels::own, own);
  add("conv1_library", ops::kConv1, true, ConvolutionKernels::library, batches);
  for (const ops::OpCase& c : ops::kOpCases)
    if (c.products || precision != CudaPrecision::tf32)  // else as in fp32
      add(c.name, c, c.products, ConvolutionKernels::own,
          c.products ? batches : std::vector{kStreaming});
  // The pool adds the bias of the convolution.
  const auto fused = [&bench, precision](std::int64_t batch) {
    OpBackend& backend = bench.backend(precision);
    const OpDesc chain[] = {ops::conv3x3(maps(backend, batch, 32, 14), 64, true), ops::halve({})};
    return backend.fuse(chain).op;
  };
  add_op(bench, {.name = "conv2_pool2", .precision = precision, .make = fused, .products = true},
         batches);
  if (precision != CudaPrecision::bf16) return;
  const auto rounding = [&bench, precision](std::int64_t batch) {
    const TensorLayout plain = TensorLayout::plain({batch * 1024});
    return bench.backend(precision).make(ops::ReorderDesc{plain, in_bf16(plain)});
  };
  add_op(bench, {.name = "rounding", .precision = precision, .make = rounding}, {kStreaming});
}

// One or a few of each kind of operation in ResNet-50, on images of 224 x 224. Their batch is that
// of a training step, or the smallest of the options.
void add_resnet(GpuBench& bench, CudaPrecision precision) {
  const std::int64_t batch = std::min<std::int64_t>(32, std::ranges::min(bench.options.batches));
  const auto in = [=, &bench](std::int64_t channels, std::int64_t extent) {
    return channels == 3 ? image(batch, channels, extent, type_of(precision))
                         : maps(bench.backend(precision), batch, channels, extent);
  };
  const auto conv = [=](std::int64_t channels, std::int64_t extent, std::int64_t out_channels,
                        const ops::Window2d& window) -> std::function<OpDesc()> {
    return [=] {
      return ops::Conv2dDesc{.input = in(channels, extent),
                             .out_channels = out_channels,
                             .window = window,
                             .bias = false,
                             .needs_grad_input = channels != 3};
    };
  };
  const auto norm = [=](std::int64_t channels, std::int64_t extent,
                        bool sum) -> std::function<OpDesc()> {
    return [=] {
      return ops::BatchNorm2dDesc{
          .input = in(channels, extent), .fuse_add = sum, .fuse_relu = true};
    };
  };
  using ops::square_window;
  const std::pair<std::string, std::function<OpDesc()>> cases[] = {
      {"conv7x7_3_64", conv(3, 224, 64, square_window(7, 2, 3))},
      {"norm_64_112", norm(64, 112, false)},
      {"max_pool_64_112",
       [=] { return ops::MaxPool2dDesc{.input = in(64, 112), .window = square_window(3, 2, 1)}; }},
      {"conv1x1_64_256_56", conv(64, 56, 256, square_window(1, 1))},
      {"conv3x3_64_64_56", conv(64, 56, 64, square_window(3, 1, 1))},
      {"norm_sum_256_56", norm(256, 56, true)},
      {"conv3x3_256_256_14", conv(256, 14, 256, square_window(3, 1, 1))},
      {"conv1x1_1024_2048_14", conv(1024, 14, 2048, square_window(1, 2))},
      {"conv3x3_512_512_7", conv(512, 7, 512, square_window(3, 1, 1))},
      {"norm_2048_7", norm(2048, 7, false)},
      {"avg_pool_2048_7",
       [=] { return ops::AdaptiveAvgPool2dDesc{.input = in(2048, 7), .out_h = 1, .out_w = 1}; }}};
  for (const auto& [name, describe] : cases) {
    const bool products = name.starts_with("conv");
    if (!products && precision == CudaPrecision::tf32) continue;  // as in fp32
    add_op(bench,
           {.name = "resnet50_" + name,
            .precision = precision,
            .make = [&bench, precision,
                     describe](std::int64_t) { return bench.backend(precision).make(describe()); },
            .input_gradients = !name.starts_with("conv7x7"),
            .products = products},
           {batch});
  }
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

// `bytes`: of so many samples or elements. `prepare` makes the call that works on so many.
void add_flat(GpuBench& bench, const std::string& name, const char* unit,
              const std::function<double(std::int64_t)>& bytes,
              const std::function<ops::Call(std::int64_t)>& prepare) {
  bench.add(name, [&bench, unit, bytes, prepare](State& state) {
    const std::int64_t count = bench.streaming_batch(bytes(1));
    bench.time(state, {.bytes = bytes(count)}, prepare(count));
    state.counters[unit] = static_cast<double>(count);
  });
}

void add_step(GpuBench& bench) {
  using N = std::int64_t;
  bench.add("copy", [&bench](State& state) {
    bench.time(state, {.bytes = bench.streaming_bytes}, bench.copy_call());
  });
  const std::pair<const char*, ops::OptimizerOptions> optimizers[] = {
      {"sgd", {.momentum = 0}}, {"sgd_momentum", {}}, {"adam", {.kind = ops::OptimizerKind::adam}}};
  for (auto [name, options] : optimizers) {
    options.lr = 1e-6;
    add_flat(
        bench, name, "elements", [=](N n) { return ops::optimizer_bytes(options, n); },
        [=, &bench](N n) {
          return ops::optimizer_call(bench.machine(), bench.backend(CudaPrecision::fp32), options,
                                     n);
        });
  }
  for (const int inputs : {2, 8})
    add_flat(
        bench, fmt::format("mean/inputs:{}", inputs), "elements",
        [=](N n) { return ops::mean_bytes(n, inputs); },
        [=, &bench](N n) { return mean_call(bench, n, inputs); });
  for (const int classes : {10, 1000})
    add_flat(
        bench, fmt::format("loss/classes:{}", classes), "samples",
        [=](N n) { return ops::loss_bytes(n, classes); },
        [=, &bench](N n) {
          return ops::loss_call(bench.machine(), bench.backend(CudaPrecision::fp32), n, classes);
        });
  add_flat(
      bench, "gather/elements:784", "samples", [](N n) { return ops::gather_bytes(n, 784); },
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
    add_simple_cnn(bench, precision);
    add_resnet(bench, precision);
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
