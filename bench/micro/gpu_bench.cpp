// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/micro/gpu_bench.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "parallel/module_library.h"

namespace ddpbench::micro {
namespace {

CudaDeviceInfo find_device(const CudaModule& module, int ordinal) {
  const CudaProbe probe = module.probe();
  if (probe.devices.empty()) throw UnavailableError("no GPU: " + probe.reason);
  for (const CudaDeviceInfo& device : probe.devices) {
    if (device.ordinal == ordinal) return device;
  }
  throw UnavailableError(
      fmt::format("--device={}: there are {} GPUs here", ordinal, probe.devices.size()));
}

}  // namespace

GpuBench::GpuBench(const GpuBenchOptions& options)
    : options_(options),
      module_(open_cuda_module(options.module)),
      info_(find_device(module_, options.device)),
      l2_bytes_(options.l2_bytes != 0 ? options.l2_bytes : info_.l2_bytes),
      device_(module_.make_device({.index = 0, .ordinal = options.device})) {
  if (l2_bytes_ == 0) {
    throw ConfigError("the driver does not tell the size of the L2 cache: give --l2-bytes");
  }
  device_->bind_calling_thread();
  stream_ = device_->make_stream();
  begin_ = device_->make_event();
  end_ = device_->make_event();
}

ops::CudaBackendOptions GpuBench::backend_options(ops::CudaPrecision precision,
                                                  ops::ConvolutionKernels convolutions) const {
  return {.precision = precision,
          .convolutions = convolutions,
          .cache_directory = options_.cache_directory};
}

ops::OpBackend& GpuBench::backend(ops::CudaPrecision precision,
                                  ops::ConvolutionKernels convolutions) {
  auto& backend = backends_[{precision, convolutions}];
  if (!backend) backend = module_.make_backend(*device_, backend_options(precision, convolutions));
  return *backend;
}

std::int64_t GpuBench::streaming_batch(double bytes_of_one) const {
  return static_cast<std::int64_t>(std::ceil(streaming_bytes() / bytes_of_one));
}

double GpuBench::copy_bytes_per_s() {
  if (peaks_.copy_bytes_per_s == 0) {
    const auto half = static_cast<std::size_t>(streaming_bytes() / 2);
    const Buffer from = device_->allocate(half, MemoryCategory::activations);
    const Buffer to = device_->allocate(half, MemoryCategory::activations);
    const double time =
        seconds_of([&] { device_->copy(*stream_, to.view(), from.view()); }, usual());
    peaks_.copy_bytes_per_s = 2 * static_cast<double>(half) / time;
  }
  return peaks_.copy_bytes_per_s;
}

double GpuBench::gemm_flops_per_s(ops::CudaPrecision precision) {
  // A launch takes some milliseconds, in strict fp32 tens of them.
  constexpr Repetitions kOfGemm = {.launches = 4, .rounds = 5};
  double& peak = peaks_.gemm_flops_per_s[precision];
  if (peak == 0) {
    const std::int64_t extent = options_.gemm;
    const DataType type = precision == ops::CudaPrecision::bf16 ? DataType::bf16 : DataType::fp32;
    ops::OpRun run(machine(),
                   backend(precision).make(
                       ops::LinearDesc{.input = ops::TensorLayout::plain({extent, extent}, type),
                                       .out_features = extent,
                                       .bias = false}),
                   false);
    peak = run.op().plan().forward_flops / seconds_of([&] { run.forward(); }, kOfGemm);
  }
  return peak;
}

// The duration of one replay of the recording, in seconds.
double GpuBench::replay_s(Recording& recording) {
  stream_->record(*begin_);
  recording.replay(*stream_);
  stream_->record(*end_);
  stream_->synchronize();
  return end_->time_s() - begin_->time_s();
}

// The duration of one launch, in seconds: the median over the rounds.
double GpuBench::seconds_of(const std::function<void()>& launch, const Repetitions& repetitions) {
  launch();  // loads the kernels: a recording cannot
  stream_->synchronize();
  stream_->begin_recording();
  for (std::int64_t i = 0; i < repetitions.launches; ++i) launch();
  const auto recording = stream_->end_recording();
  replay_s(*recording);  // warms up
  std::vector<double> times;
  for (std::int64_t i = 0; i < repetitions.rounds; ++i) times.push_back(replay_s(*recording));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle / static_cast<double>(repetitions.launches);
}

void GpuBench::time(benchmark::State& state, const Work& work,
                    const std::function<void()>& launch) {
  const double copy = copy_bytes_per_s();
  const double product = work.flops > 0 ? gemm_flops_per_s(work.precision) : 0;
  const double time = seconds_of(launch, usual());
  for ([[maybe_unused]] auto _ : state) state.SetIterationTime(time);
  state.counters["bytes"] = work.bytes;
  state.counters["bytes_per_s"] = work.bytes / time;
  state.counters["share_of_copy"] = work.bytes / time / copy;
  if (work.flops == 0) return;
  state.counters["FLOP_per_s"] = work.flops / time;
  state.counters["share_of_bound"] = std::max(work.bytes / copy, work.flops / product) / time;
}

std::string name_of(ops::CudaPrecision precision) {
  if (precision == ops::CudaPrecision::fp32) return "fp32";
  return precision == ops::CudaPrecision::tf32 ? "tf32" : "bf16";
}

void register_case(GpuBench& bench, const std::string& name,
                   const std::function<void(benchmark::State&)>& run) {
  const auto guarded = [&bench, run](benchmark::State& state) {
    try {
      run(state);
    } catch (const std::exception& error) {
      bench.note_failure();
      state.SkipWithError(error.what());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), guarded)
      ->UseManualTime()
      ->Iterations(1)  // the median of the rounds
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace ddpbench::micro
