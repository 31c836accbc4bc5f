// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times every operation of a device at the sizes of SimpleCNN and ResNet-50, forward and backward
// apart, and what stands around a network in a step.
//
//   ops_bench --benchmark_filter=conv2/ --benchmark_repetitions=5
//   ops_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=15
//       --benchmark_report_aggregates_only=true --benchmark_filter='conv3x3.*threads:1'
//   ops_bench --device=cuda --benchmark_out=ops.json --benchmark_out_format=json
//
// Own options: --module=PATH of the CUDA module, --size=N in place of all numbers of samples and
// elements, --launches=N (CUDA). On a GPU, events time a recording of so many launches, which is
// replayed as often; the larger sizes are beyond its L2 cache. On a CPU compare by the `min` of the
// processor time, because what else a machine does only adds time. Without the CUDA module or a
// GPU the program says so and exits with 3.
#include "bench/micro/ops_bench.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "kernels/ops/cuda_backend.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/cuda_module.h"

namespace ddpbench::ops {
namespace {

using benchmark::Counter;
using benchmark::State;
using Sizes = std::vector<std::int64_t>;

struct Settings {
  bool cuda = false;
  std::string module;     // its path
  std::int64_t size = 0;  // 0: those of each case
  std::int64_t launches = 32;

  // Takes an option of this program. Returns false for others.
  bool take(std::string_view word) {
    const std::size_t end = std::min(word.find('=') + 1, word.size());  // npos + 1 is 0
    const std::string_view option = word.substr(0, end), value = word.substr(end);
    const auto number = number_in<std::int64_t>(value).value_or(0);
    if (option == "--module=") module = value;
    if (option == "--size=") size = number;
    if (option == "--launches=") launches = number;
    if (option == "--device=") cuda = value == "cuda";
    return option == "--module=" || (option == "--device=" && (cuda || value == "cpu")) ||
           ((option == "--size=" || option == "--launches=") && number > 0);
  }
};
Settings settings;

std::shared_ptr<Machine> machine_on(std::unique_ptr<Device> device) {
  auto machine = std::make_shared<Machine>(Machine{.device = std::move(device)});
  machine->device->bind_calling_thread();
  machine->stream = machine->device->make_stream();
  return machine;
}

// A new device for each benchmark, to whose cores the calling thread is bound.
std::vector<Variant> cpu_variants() {
  std::vector<Variant> variants;
  for (const int threads : {1, 2})
    variants.push_back({fmt::format("threads:{}", threads), [=] {
                          auto machine = machine_on(make_cpu_device({.threads = threads}));
                          machine->backend = make_onednn_backend(*machine->device);
                          return machine;
                        }});
  return variants;
}

// The precisions that the GPU has, and the library's kernels where there are own ones, too. Throws
// UnavailableError without a GPU.
std::vector<Variant> cuda_variants() {
  const CudaModule& module = open_cuda_module(settings.module);
  const CudaProbe probe = module.probe();
  if (probe.devices.empty()) throw UnavailableError("no GPU: " + probe.reason);
  const CudaDeviceInfo gpu = probe.devices.front();
  benchmark::AddCustomContext("gpu", gpu.name);
  std::vector<Variant> variants;
  for (const auto kernels : {ConvolutionKernels::own, ConvolutionKernels::library})
    for (const auto precision : {CudaPrecision::fp32, CudaPrecision::tf32, CudaPrecision::bf16}) {
      if (gpu.compute_capability < first_capability(precision)) continue;
      const auto machine = machine_on(module.make_device({.index = 0, .ordinal = gpu.ordinal}));
      machine->backend =
          module.make_backend(*machine->device, {.precision = precision, .convolutions = kernels});
      machine->type = compute_type(precision);
      const bool own = kernels == ConvolutionKernels::own;
      variants.push_back({fmt::format("{}{}", to_string(precision), own ? "" : "_library"),
                          [=] { return machine; }});
    }
  return variants;
}

// Times a recording of the call by the device's clock.
void replay(State& state, Machine& machine, const Timed& made) {
  Stream& stream = *machine.stream;
  const auto begin = machine.device->make_event(), end = machine.device->make_event();
  made.call();  // loads the kernels: a recording cannot
  stream.synchronize();
  stream.begin_recording();
  for (std::int64_t i = 0; i < settings.launches; ++i) made.call();
  const auto recording = stream.end_recording();
  for (auto _ : state) {
    stream.record(*begin);
    recording->replay(stream);
    stream.record(*end);
    stream.synchronize();
    state.SetIterationTime((end->time_s() - begin->time_s()) /
                           static_cast<double>(settings.launches));
  }
}

void time_case(State& state, Machine& machine, const Timed& made) {
  if (machine.stream->can_record()) {
    replay(state, machine, made);
  } else {
    for (auto _ : state) made.call();
  }
  const auto rate = [&](const char* counter, double of_one) {
    if (of_one > 0) state.counters[counter] = Counter(of_one, Counter::kIsIterationInvariantRate);
  };
  rate("samples_per_s", static_cast<double>(state.range(0)));
  rate("bytes_per_s", made.bytes);
  rate("FLOP_per_s", made.flops);
  state.counters["bytes"] = made.bytes;
  state.SetLabel(made.label);
}

double least(const std::vector<double>& times) { return std::ranges::min(times); }

// ---- operations of networks ----

// An operation of a network.
struct OpCase {
  std::string name;
  OpDesc desc;
  bool input_gradients = true;
};
using Network = std::vector<OpCase>(Machine&, std::int64_t batch);

// The layout of a convolution's maps, from batch 1: no algorithm is searched for a large one.
TensorLayout maps(Machine& machine, std::int64_t batch, std::int64_t channels,
                  std::int64_t extent) {
  TensorLayout layout =
      machine.backend->make(conv3x3(image(1, 1, extent), channels, false))->plan().output;
  layout.shape[0] = batch;
  layout.bytes *= static_cast<std::size_t>(batch);
  return layout;
}

// Max-pool 2x2 with ReLU.
MaxPool2dDesc halve(const TensorLayout& input) {
  return {.input = input, .window = square_window(2, 2), .fuse_relu = true};
}

// The operations of SimpleCNN (configs/models/simple_cnn.json), and of networks like it.
std::vector<OpCase> simple_cnn(Machine& machine, std::int64_t n) {
  const TensorLayout map1 = maps(machine, n, 32, 28), map2 = maps(machine, n, 64, 14);
  const TensorLayout pooled1 = maps(machine, n, 32, 14), pooled2 = maps(machine, n, 64, 7);
  const TensorLayout hidden = TensorLayout::plain({n, 128}, machine.type);
  const LinearDesc fc1{.input = pooled2, .out_features = 128, .fuse_relu = true};
  std::vector<OpCase> cases = {{"conv1", conv3x3(image(n, 1, 28), 32, false), false},
                               {"conv2", conv3x3(pooled1, 64)},
                               {"fc1", fc1},
                               {"fc2", LinearDesc{.input = hidden, .out_features = 10}},
                               {"pool1", halve(map1)},
                               {"pool2", halve(map2)},
                               {"relu", ActivationDesc{map1}},
                               {"add", AddDesc{map1}},
                               {"reorder", ReorderDesc{image(n, 32, 28, map1.type), map1}}};
  if (machine.type == DataType::bf16) {
    const TensorLayout plain = TensorLayout::plain({n * 1024});
    cases.push_back({"rounding", ReorderDesc{plain, with_type(plain, machine.type)}});
  }
  return cases;
}

// One or a few of each kind of operation in ResNet-50, on images of 224 x 224.
std::vector<OpCase> resnet50(Machine& machine, std::int64_t n) {
  const auto in = [&](std::int64_t channels, std::int64_t extent) {
    return maps(machine, n, channels, extent);
  };
  const auto conv = [](const TensorLayout& input, std::int64_t out_channels, std::int64_t kernel,
                       std::int64_t stride, bool needs_grad_input = true) -> OpDesc {
    return Conv2dDesc{.input = input,
                      .out_channels = out_channels,
                      .window = square_window(kernel, stride, kernel / 2),
                      .bias = false,
                      .needs_grad_input = needs_grad_input};
  };
  const auto norm = [](const TensorLayout& input, bool sum) -> OpDesc {
    return BatchNorm2dDesc{.input = input, .fuse_add = sum, .fuse_relu = true};
  };
  const TensorLayout images = image(n, 3, 224, machine.type);
  const MaxPool2dDesc max_pool{.input = in(64, 112), .window = square_window(3, 2, 1)};
  const AdaptiveAvgPool2dDesc mean{.input = in(2048, 7), .out_h = 1, .out_w = 1};
  return {{"resnet50_conv7x7_3_64", conv(images, 64, 7, 2, false), false},
          {"resnet50_norm_64_112", norm(in(64, 112), false)},
          {"resnet50_max_pool_64_112", max_pool},
          {"resnet50_conv1x1_64_256_56", conv(in(64, 56), 256, 1, 1)},
          {"resnet50_conv3x3_64_64_56", conv(in(64, 56), 64, 3, 1)},
          {"resnet50_norm_sum_256_56", norm(in(256, 56), true)},
          {"resnet50_conv3x3_256_256_14", conv(in(256, 14), 256, 3, 1)},
          {"resnet50_conv1x1_1024_2048_14", conv(in(1024, 14), 2048, 1, 2)},
          {"resnet50_conv3x3_512_512_7", conv(in(512, 7), 512, 3, 1)},
          {"resnet50_norm_2048_7", norm(in(2048, 7), false)},
          {"resnet50_avg_pool_2048_7", mean}};
}

// Of a network one operation at a time is made, so that memory does not add up.
void register_network(Network* network, const std::vector<Variant>& variants, const Sizes& sizes) {
  for (const Variant& variant : variants) {
    const auto cases = network(*variant.machine(), 1);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      // Only the first convolution has an own kernel beside the library's.
      if (variant.name.ends_with("_library") && cases[i].name != "conv1") continue;
      for (const bool is_forward : {true, false})
        register_case(fmt::format("{}/{}", is_forward ? "forward" : "backward", cases[i].name),
                      {variant}, sizes, [=](Machine& machine, std::int64_t batch) {
                        const OpCase made = network(machine, batch)[i];
                        return timed(machine, machine.backend->make(made.desc), is_forward,
                                     made.input_gradients);
                      });
    }
  }
}

// ---- what stands around a network in a step: calls that own their memory; all fp32 ----

// It reads and writes weights and slots, and reads gradients.
Timed optimizer_call(Machine& machine, const OptimizerOptions& options, std::int64_t count) {
  const auto memory = std::make_shared<Operands>(machine);
  const auto elements = static_cast<std::size_t>(count);
  const OptimizerArgs args{
      .weights = memory->floats(count),
      .gradients = memory->floats(count),
      .state = memory->room(optimizer_state_bytes(options, elements), MemoryCategory::optimizer),
      .count = elements,
      .options = options};
  return {[=] { memory->machine.backend->update(*memory->machine.stream, args); },
          static_cast<double>(sizeof(float) * (3 + 2 * slot_count(options)) * elements)};
}

// It reads logits and labels, and writes the logits' gradient.
Timed loss_call(Machine& machine, std::int64_t batch, std::int64_t classes) {
  const auto memory = std::make_shared<Operands>(machine);
  const CrossEntropyDesc desc{.batch = batch, .classes = classes};
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < batch; ++i) labels.push_back(static_cast<std::int32_t>(i % classes));
  const std::size_t workspace = machine.backend->loss_workspace_bytes(desc);
  const LossArgs args{.logits = memory->floats(batch * classes),
                      .labels = memory->upload(labels),
                      .samples = batch,
                      .grad_scale = 1e-3F,
                      .grad_logits = memory->floats(batch * classes),
                      .totals = memory->upload(std::vector<LossTotals>(1)),
                      .workspace = memory->room(workspace, MemoryCategory::workspace)};
  return {[=] { memory->machine.backend->loss(*memory->machine.stream, desc, args); },
          sizeof(float) * static_cast<double>(batch * (2 * classes + 1))};
}

// It reads the inputs and writes their mean.
Timed mean_call(Machine& machine, std::int64_t count, std::size_t inputs) {
  const auto memory = std::make_shared<Operands>(machine);
  std::vector<const float*> from;
  while (from.size() < inputs) from.push_back(memory->floats(count));
  const auto elements = static_cast<std::size_t>(count);
  return {[=, to = memory->floats(count)] {
            memory->machine.backend->mean(*memory->machine.stream, from, to, elements);
          },
          static_cast<double>(sizeof(float) * (inputs + 1) * elements)};
}

// What others are compared with.
Timed copy_call(Machine& machine, std::int64_t count) {
  const auto memory = std::make_shared<Operands>(machine);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  auto* const from = memory->room(bytes, MemoryCategory::activations);
  auto* const to = memory->room(bytes, MemoryCategory::activations);
  return {[=] {
            memory->machine.device->copy(*memory->machine.stream, {to, bytes}, {from, bytes});
          },
          2.0 * static_cast<double>(bytes)};
}

void register_step(const std::vector<Variant>& variants, const Sizes& batches) {
  const Sizes elements = {421642, 25557032};  // SimpleCNN's parameters, and more than caches hold
  register_case("copy", variants, elements, copy_call);
  const std::pair<const char*, OptimizerOptions> optimizers[] = {
      {"sgd", {.lr = 1e-6, .momentum = 0}},
      {"sgd_momentum", {.lr = 1e-6}},
      {"adam", {.kind = OptimizerKind::adam, .lr = 1e-6}}};
  for (const auto& [name, options] : optimizers)
    register_case(fmt::format("optimizer/{}", name), variants, elements,
                  [options = options](Machine& machine, std::int64_t count) {
                    return optimizer_call(machine, options, count);
                  });
  for (const std::size_t inputs : {2, 8})
    register_case(
        fmt::format("mean/inputs:{}", inputs), variants, elements,
        [=](Machine& machine, std::int64_t count) { return mean_call(machine, count, inputs); });
  for (const std::int64_t classes : {10, 1000})
    register_case(
        fmt::format("loss/classes:{}", classes), variants, batches,
        [=](Machine& machine, std::int64_t batch) { return loss_call(machine, batch, classes); });
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);  // removes its own options
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  settings.module = program.parent_path().parent_path() / "lib" / "ddpbench" / kCudaModuleFile;
  std::vector<char*> unknown = {argv[0]};
  for (char* const word : std::span(argv, static_cast<std::size_t>(argc)).subspan(1))
    if (!settings.take(word)) unknown.push_back(word);
  if (benchmark::ReportUnrecognizedArguments(static_cast<int>(unknown.size()), unknown.data()))
    return 2;
  const auto variants = settings.cuda ? cuda_variants() : cpu_variants();
  // On CPU devices a micro-batch and a whole batch.
  const Sizes batches = settings.cuda ? Sizes{256, 4096} : Sizes{16, 256};
  register_step({variants.front()}, batches);
  register_network(simple_cnn, variants, batches);
  register_network(resnet50, variants, {32});
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace

void register_case(const std::string& name, const std::vector<Variant>& variants,
                   const std::vector<std::int64_t>& sizes,
                   const std::function<Timed(Machine& machine, std::int64_t size)>& prepare) {
  for (const Variant& variant : variants) {
    const auto guarded = [prepare, make = variant.machine](State& state) mutable {
      try {
        const std::shared_ptr<Machine> machine = make();
        time_case(state, *machine, prepare(*machine, state.range(0)));
      } catch (const Error& error) {
        state.SkipWithError(error.what());
      }
    };
    auto* const made =
        benchmark::RegisterBenchmark(fmt::format("{}/{}", name, variant.name).c_str(), guarded);
    made->ArgName("size")->Unit(benchmark::kMicrosecond);
    for (const std::int64_t size : settings.size > 0 ? std::vector{settings.size} : sizes)
      made->Arg(size);
    if (settings.cuda)
      made->UseManualTime()->Iterations(settings.launches);
    else
      made->UseRealTime()->ComputeStatistics("min", least);
  }
}

}  // namespace ddpbench::ops

int main(int argc, char** argv) {
  try {
    return ddpbench::ops::run(argc, argv);
  } catch (const ddpbench::UnavailableError& error) {
    fmt::print(stderr, "ops_bench: skipped: {}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
