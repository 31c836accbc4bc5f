// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// 3x3 convolutions as direct convolution and as Winograd, in fp32 and bf16, at the shapes of
// SimpleCNN's second layer, ResNets and VGG. All are counted as direct convolution.
#include <fmt/format.h>

#include "bench/micro/op_run.h"
#include "kernels/ops/onednn/onednn_ops.h"

namespace ddpbench::ops {
namespace {

using onednn::ConvAlgorithm;

struct Layer {
  std::int64_t in, out, extent;
  std::vector<std::int64_t> batches;
};

const Layer kLayers[] = {{32, 64, 14, {1, 16, 256}},  // SimpleCNN's conv2
                         {64, 64, 56, {1, 4, 16}},    // ResNet-18 to -50
                         {128, 128, 28, {1, 4, 16}}, {256, 256, 14, {1, 4, 16}},
                         {512, 512, 7, {1, 4, 16}},  {64, 64, 224, {1, 4}},  // VGG-16
                         {128, 128, 112, {1, 4}},    {256, 256, 56, {1, 4}},
                         {512, 512, 28, {1, 4}},     {512, 512, 14, {1, 4, 16}}};

constexpr std::pair<const char*, ConvAlgorithm> kAlgorithms[] = {
    {"direct", ConvAlgorithm::direct}, {"winograd", ConvAlgorithm::winograd}};

Timed convolution(Machine& machine, const Conv2dDesc& desc, DataType maps, ConvAlgorithm algorithm,
                  bool is_forward) {
  if (const std::string reason = why_no_cpu_bf16(); maps == DataType::bf16 && !reason.empty())
    throw UnavailableError(reason);
  const auto context = std::make_shared<onednn::Context>();
  context->activations = maps;
  context->threads = machine.device->thread_count();
  return timed(machine, onednn::make_conv2d(context, desc, algorithm), is_forward);
}

}  // namespace

void register_convolutions(const std::vector<Variant>& variants) {
  for (const Layer& layer : kLayers)
    for (const DataType maps : {DataType::fp32, DataType::bf16})
      for (const auto& [name, algorithm] : kAlgorithms)
        for (const bool is_forward : {true, false})
          register_case(
              fmt::format("conv3x3/{}->{}x{}x{}/{}/{}_{}", layer.in, layer.out, layer.extent,
                          layer.extent, is_forward ? "forward" : "backward", name, to_string(maps)),
              variants, layer.batches,
              [=, algorithm = algorithm](Machine& machine, std::int64_t batch) {
                const auto input = image(batch, layer.in, layer.extent);
                return convolution(machine, conv3x3(input, layer.out), maps, algorithm, is_forward);
              });
}

}  // namespace ddpbench::ops
