// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The work around the network in a step: batch, loss, mean and update, at sizes that no cache
// holds; and the copy that all are compared with.
#include <algorithm>
#include <numeric>
#include <random>

#include "bench/micro/gpu_bench.h"
#include "kernels/ops/traffic.h"

namespace ddpbench::micro {
namespace {

using ops::CudaPrecision;

float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

Buffer random_floats(GpuBench& bench, std::int64_t count) {
  return ops::random_values(bench.machine(), static_cast<std::size_t>(count) * sizeof(float),
                            DataType::fp32);
}

template <typename T>
Buffer upload(GpuBench& bench, const std::vector<T>& values) {
  return ops::upload(bench.machine(), values.data(), values.size() * sizeof(T));
}

void copy(GpuBench& bench, benchmark::State& state) {
  const auto machine = bench.machine();
  const auto half = static_cast<std::size_t>(bench.streaming_bytes() / 2);
  const Buffer from = machine.device.allocate(half, MemoryCategory::activations);
  const Buffer to = machine.device.allocate(half, MemoryCategory::activations);
  bench.time(state, {.bytes = 2 * static_cast<double>(half)},
             [&] { machine.device.copy(machine.stream, to.view(), from.view()); });
}

void optimizer(GpuBench& bench, benchmark::State& state, ops::OptimizerOptions options) {
  options.lr = 1e-6;
  const std::int64_t count = bench.streaming_batch(ops::optimizer_bytes(options, 1));
  const Buffer weights = random_floats(bench, count), gradients = random_floats(bench, count);
  const auto elements = static_cast<std::size_t>(count);
  const Buffer memory = bench.machine().device.allocate(
      ops::optimizer_state_bytes(options, elements), MemoryCategory::optimizer);
  ops::OpBackend& backend = bench.backend(CudaPrecision::fp32);
  bench.time(state, {.bytes = ops::optimizer_bytes(options, count)}, [&] {
    backend.update(bench.machine().stream, {.weights = floats(weights),
                                            .gradients = floats(gradients),
                                            .state = memory.data(),
                                            .count = elements,
                                            .options = options});
  });
  state.counters["elements"] = static_cast<double>(count);
}

void mean(GpuBench& bench, benchmark::State& state, int inputs) {
  const std::int64_t count = bench.streaming_batch(ops::mean_bytes(1, inputs));
  std::vector<Buffer> buffers;
  std::vector<const float*> from;
  for (int i = 0; i < inputs; ++i) {
    buffers.push_back(random_floats(bench, count));
    from.push_back(floats(buffers.back()));
  }
  const Buffer to = random_floats(bench, count);
  ops::OpBackend& backend = bench.backend(CudaPrecision::fp32);
  bench.time(state, {.bytes = ops::mean_bytes(count, inputs)}, [&] {
    backend.mean(bench.machine().stream, from, floats(to), static_cast<std::size_t>(count));
  });
  state.counters["elements"] = static_cast<double>(count);
}

void loss(GpuBench& bench, benchmark::State& state, std::int64_t classes) {
  const std::int64_t batch = bench.streaming_batch(ops::loss_bytes(1, classes));
  const Buffer logits = random_floats(bench, batch * classes);
  const Buffer gradient = random_floats(bench, batch * classes);
  std::vector<std::int32_t> host_labels(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < host_labels.size(); ++i) {
    host_labels[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(classes));
  }
  const Buffer labels = upload(bench, host_labels);
  const Buffer totals = upload(bench, std::vector<ops::LossTotals>(1));
  const ops::CrossEntropyDesc desc{.batch = batch, .classes = classes};
  ops::OpBackend& backend = bench.backend(CudaPrecision::fp32);
  const Buffer workspace = bench.machine().device.allocate(backend.loss_workspace_bytes(desc),
                                                           MemoryCategory::workspace);
  bench.time(state, {.bytes = ops::loss_bytes(batch, classes)}, [&] {
    backend.loss(bench.machine().stream, desc,
                 {.logits = floats(logits),
                  .labels = reinterpret_cast<const std::int32_t*>(labels.data()),
                  .samples = batch,
                  .grad_scale = 1e-3F,
                  .grad_logits = floats(gradient),
                  .totals = reinterpret_cast<ops::LossTotals*>(totals.data()),
                  .workspace = workspace.data()});
  });
  state.counters["samples"] = static_cast<double>(batch);
}

// Gathers samples in random order from a data set of equal size.
void gather(GpuBench& bench, benchmark::State& state, std::int64_t elements) {
  const std::int64_t batch = bench.streaming_batch(ops::gather_bytes(1, elements));
  const auto samples = static_cast<std::size_t>(batch);
  const Buffer images = ops::random_values(
      bench.machine(), samples * static_cast<std::size_t>(elements), DataType::uint8);
  const Buffer labels =
      ops::random_values(bench.machine(), samples * sizeof(std::uint16_t), DataType::uint8);
  std::vector<std::int32_t> order(samples);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  const Buffer indices = upload(bench, order);
  const Buffer out = random_floats(bench, batch * elements),
               labels_out = random_floats(bench, batch);
  const double average = 0.13, deviation = 0.31;
  ops::OpBackend& backend = bench.backend(CudaPrecision::fp32);
  bench.time(state, {.bytes = ops::gather_bytes(batch, elements)}, [&] {
    backend.gather(bench.machine().stream,
                   {.images = reinterpret_cast<const std::uint8_t*>(images.data()),
                    .labels = reinterpret_cast<const std::uint16_t*>(labels.data()),
                    .indices = reinterpret_cast<const std::int32_t*>(indices.data()),
                    .batch = batch,
                    .sample_elements = elements,
                    .mean = {&average, 1},
                    .std = {&deviation, 1},
                    .out = floats(out),
                    .labels_out = reinterpret_cast<std::int32_t*>(labels_out.data())});
  });
  state.counters["samples"] = static_cast<double>(batch);
}

}  // namespace

void register_flat_cases(GpuBench& bench) {
  const auto add = [&](const std::string& name, const auto& run) {
    register_case(bench, name, [&bench, run](benchmark::State& state) { run(bench, state); });
  };
  using State = benchmark::State;
  add("copy", copy);
  add("sgd", [](GpuBench& b, State& s) { optimizer(b, s, {.momentum = 0}); });
  add("sgd_momentum", [](GpuBench& b, State& s) { optimizer(b, s, {}); });
  add("adam", [](GpuBench& b, State& s) { optimizer(b, s, {.kind = ops::OptimizerKind::adam}); });
  for (const int inputs : {2, 8}) {
    add("mean/inputs:" + std::to_string(inputs),
        [inputs](GpuBench& b, State& s) { mean(b, s, inputs); });
  }
  for (const std::int64_t classes : {10, 1000}) {
    add("loss/classes:" + std::to_string(classes),
        [classes](GpuBench& b, State& s) { loss(b, s, classes); });
  }
  add("gather/elements:784", [](GpuBench& b, State& s) { gather(b, s, 784); });
}

}  // namespace ddpbench::micro
