// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations of SimpleCNN and ResNet-50. SimpleCNN's: our own kernels at sizes that no cache holds,
// the library's at the batches of the options. At 256 samples all operands of a layer stay in the
// L2 cache of a large GPU, so its share of a copy may exceed 1.
#include <algorithm>

#include "bench/micro/gpu_bench.h"
#include "kernels/ops/traffic.h"

namespace ddpbench::micro {
namespace {

using ops::AddDesc;
using ops::BatchNorm2dDesc;
using ops::Conv2dDesc;
using ops::conv3x3;
using ops::conv3x3_halved;
using ops::ConvolutionKernels;
using ops::CudaPrecision;
using ops::halve;
using ops::image;
using ops::LinearDesc;
using ops::MaxPool2dDesc;
using ops::Op;
using ops::OpBackend;
using ops::ReluDesc;
using ops::ReorderDesc;
using ops::square_window;
using ops::TensorLayout;
using MakeOp = std::function<std::unique_ptr<Op>(std::int64_t batch)>;

enum class Direction : std::uint8_t { forward, backward };

// An operation. Each benchmark makes it anew, so that memory does not add up.
struct OpCase {
  std::string name;
  CudaPrecision precision;
  MakeOp make;
  bool input_gradients = true;
  bool products = false;  // bound by arithmetic, too
};

double bytes_of(const Op& op, Direction direction, bool input_gradients) {
  return direction == Direction::forward ? ops::forward_bytes(op)
                                         : ops::backward_bytes(op, input_gradients);
}

void run_op(GpuBench& bench, benchmark::State& state, const OpCase& c, Direction direction,
            std::int64_t batch) {
  ops::OpRun run(bench.machine(), c.make(batch), c.input_gradients);
  const bool forward = direction == Direction::forward;
  Work work{.bytes = bytes_of(run.op(), direction, c.input_gradients), .precision = c.precision};
  if (c.products)
    work.flops = forward ? run.op().plan().forward_flops : run.op().plan().backward_flops;
  bench.time(state, work, [&] { forward ? run.forward() : run.backward(); });
  state.counters["samples"] = static_cast<double>(batch);
  state.SetLabel(run.op().plan().description);
}

std::string full_name(const OpCase& c, Direction direction) {
  return c.name + (direction == Direction::forward ? "/forward/" : "/backward/") +
         name_of(c.precision);
}

constexpr Direction kDirections[] = {Direction::forward, Direction::backward};

// Registers at 8 times the L2 cache: the bytes of a small batch's samples give the batch.
void register_streaming(GpuBench& bench, const OpCase& c) {
  constexpr std::int64_t kSmall = 8;
  for (const Direction direction : kDirections) {
    register_case(bench, full_name(c, direction), [&bench, c, direction](benchmark::State& state) {
      const double bytes = bytes_of(*c.make(kSmall), direction, c.input_gradients);
      run_op(bench, state, c, direction, bench.streaming_batch(bytes / kSmall));
    });
  }
}

void register_batches(GpuBench& bench, const OpCase& c, const std::vector<std::int64_t>& batches) {
  for (const Direction direction : kDirections) {
    for (const std::int64_t batch : batches) {
      register_case(bench, full_name(c, direction) + "/batch:" + std::to_string(batch),
                    [&bench, c, direction, batch](benchmark::State& state) {
                      run_op(bench, state, c, direction, batch);
                    });
    }
  }
}

DataType type_of(CudaPrecision precision) {
  return precision == CudaPrecision::bf16 ? DataType::bf16 : DataType::fp32;
}

// The layout of a convolution's maps, from batch 1: no algorithm is searched for a large one.
TensorLayout maps(OpBackend& backend, std::int64_t batch, std::int64_t channels,
                  std::int64_t extent) {
  TensorLayout layout = conv3x3(backend, image(1, 1, extent), channels, false)->plan().output;
  layout.shape[0] = batch;
  layout.bytes *= static_cast<std::size_t>(batch);
  return layout;
}

void register_own(GpuBench& bench, CudaPrecision precision) {
  const auto backend = [&bench, precision]() -> OpBackend& { return bench.backend(precision); };
  const auto pool = [&](const char* name, std::int64_t channels, std::int64_t extent) {
    register_streaming(bench, {name, precision, [=](std::int64_t batch) {
                                 const TensorLayout in = maps(backend(), batch, channels, extent);
                                 return halve(backend(), in);
                               }});
  };
  pool("pool1", 32, 28);
  pool("pool2", 64, 14);
  register_streaming(bench, {"relu", precision, [=](std::int64_t batch) {
                               return backend().make(ReluDesc{maps(backend(), batch, 32, 28)});
                             }});
  register_streaming(bench, {"add", precision, [=](std::int64_t batch) {
                               return backend().make(AddDesc{maps(backend(), batch, 32, 28)});
                             }});
  register_streaming(bench,
                     {"reorder", precision, [=](std::int64_t batch) {
                        const TensorLayout to = maps(backend(), batch, 32, 28);
                        return backend().make(ReorderDesc{image(batch, 32, 28, to.type), to});
                      }});
  if (precision == CudaPrecision::bf16) {
    register_streaming(bench, {"rounding", precision, [=](std::int64_t batch) {
                                 const TensorLayout plain = TensorLayout::plain({batch * 1024});
                                 return backend().make(ReorderDesc{plain, in_bf16(plain)});
                               }});
  }
}

// The first layer: our own kernels at sizes that no cache holds, and both kinds at the usual
// batches.
void register_first_layer(GpuBench& bench, CudaPrecision precision) {
  const auto add = [&](const char* name, ConvolutionKernels kernels, const auto& make) {
    const bool own = kernels == ConvolutionKernels::own;
    OpCase c{.name = name,
             .precision = precision,
             .make =
                 [&bench, precision, kernels, make](std::int64_t batch) {
                   return make(bench.backend(precision, kernels), image(batch, 1, 28), 32, false);
                 },
             .input_gradients = false,
             .products = !own};  // our own compute in fp32 at any precision
    register_batches(bench, c, bench.options().batches);
    if (own) register_streaming(bench, c);
  };
  add("conv1_own", ConvolutionKernels::own, conv3x3);
  add("conv1_library", ConvolutionKernels::library, conv3x3);
}

void register_library(GpuBench& bench, CudaPrecision precision) {
  const auto backend = [&bench, precision]() -> OpBackend& { return bench.backend(precision); };
  const auto add = [&](const char* name, const MakeOp& make) {
    register_batches(bench, {.name = name, .precision = precision, .make = make, .products = true},
                     bench.options().batches);
  };
  const DataType type = type_of(precision);
  add("conv2", [=](std::int64_t batch) {
    return conv3x3(backend(), maps(backend(), batch, 32, 14), 64, true);
  });
  // The pool adds the bias of the convolution.
  add("conv2_pool2", [=](std::int64_t batch) {
    return conv3x3_halved(backend(), maps(backend(), batch, 32, 14), 64, true);
  });
  add("fc1", [=](std::int64_t batch) {
    return backend().make(
        LinearDesc{.input = maps(backend(), batch, 64, 7), .out_features = 128, .fuse_relu = true});
  });
  add("fc2", [=](std::int64_t batch) {
    return backend().make(
        LinearDesc{.input = TensorLayout::plain({batch, 128}, type), .out_features = 10});
  });
}

// Registers one or a few of each kind of operation in ResNet-50, on images of 224 x 224. Their
// batch is that of a training step, or the smallest of the options.
void register_resnet(GpuBench& bench, CudaPrecision precision) {
  const auto backend = [&bench, precision]() -> OpBackend& { return bench.backend(precision); };
  const std::int64_t batch = std::min<std::int64_t>(32, std::ranges::min(bench.options().batches));
  const auto in = [=](std::int64_t channels, std::int64_t extent) {
    return maps(backend(), batch, channels, extent);
  };
  const auto add = [&](const std::string& name, bool input_gradients, bool products,
                       const std::function<ops::OpDesc()>& describe) {
    if (!products && precision == CudaPrecision::tf32) return;  // as in fp32
    register_batches(bench,
                     {.name = "resnet50_" + name,
                      .precision = precision,
                      .make = [=](std::int64_t) { return backend().make(describe()); },
                      .input_gradients = input_gradients,
                      .products = products},
                     {batch});
  };
  const auto conv = [&](const std::string& name, std::int64_t channels, std::int64_t extent,
                        std::int64_t out_channels, const ops::Window2d& window) {
    const bool first = channels == 3;
    add(name, !first, true, [=] {
      return Conv2dDesc{.input = first ? image(batch, channels, extent, type_of(precision))
                                       : in(channels, extent),
                        .out_channels = out_channels,
                        .window = window,
                        .bias = false,
                        .needs_grad_input = !first};
    });
  };
  const auto norm = [&](const std::string& name, std::int64_t channels, std::int64_t extent,
                        bool sum) {
    add(name, true, false, [=] {
      return BatchNorm2dDesc{.input = in(channels, extent), .fuse_add = sum, .fuse_relu = true};
    });
  };
  conv("conv7x7_3_64", 3, 224, 64, square_window(7, 2, 3));
  norm("norm_64_112", 64, 112, false);
  add("max_pool_64_112", true, false,
      [=] { return MaxPool2dDesc{.input = in(64, 112), .window = square_window(3, 2, 1)}; });
  conv("conv1x1_64_256_56", 64, 56, 256, square_window(1, 1));
  conv("conv3x3_64_64_56", 64, 56, 64, square_window(3, 1, 1));
  norm("norm_sum_256_56", 256, 56, true);
  conv("conv3x3_256_256_14", 256, 14, 256, square_window(3, 1, 1));
  conv("conv1x1_1024_2048_14", 1024, 14, 2048, square_window(1, 2));
  conv("conv3x3_512_512_7", 512, 7, 512, square_window(3, 1, 1));
  norm("norm_2048_7", 2048, 7, false);
  add("avg_pool_2048_7", true, false,
      [=] { return ops::AdaptiveAvgPool2dDesc{.input = in(2048, 7), .out_h = 1, .out_w = 1}; });
}

}  // namespace

void register_op_cases(GpuBench& bench) {
  for (const CudaPrecision precision :
       {CudaPrecision::fp32, CudaPrecision::tf32, CudaPrecision::bf16}) {
    if (precision != CudaPrecision::fp32 && bench.info().compute_capability < 80) continue;
    register_first_layer(bench, precision);
    register_library(bench, precision);
    register_resnet(bench, precision);
    // Only products are computed in TF32; everything else is in fp32.
    if (precision != CudaPrecision::tf32) register_own(bench, precision);
  }
}

}  // namespace ddpbench::micro
