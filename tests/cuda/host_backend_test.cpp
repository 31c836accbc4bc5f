// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What only the stand-in for a GPU can show: searches, refusals, an older device.
#include <gmock/gmock.h>

#include "base/error.h"
#include "kernels/nn/graph.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/ops/cuda/library/algorithm_cache.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/cpu_device.h"
#include "kernels/runtime/cuda_device.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/cuda/host/host_stream.h"
#include "tests/cuda/planning_conditions.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

// Five channels have no own kernel.
const Conv2dDesc kConv = conv({2, 5, 6, 6}, 4, 3);
const Conv2dDesc kFirstConv = first_layer(conv({2, 1, 8, 8}, 4, 3, 1, 1));

std::string conv_of(const CudaBackendOptions& options, const Conv2dDesc& desc) {
  BackendFixture fixture = cuda_backend(options);
  return fixture.backend().make(desc)->plan().description;
}

TEST(CudaBackend, SearchesOnceForAShapeAndRemembersItOnDisk) {
  const CacheDirectory directory;
  const CudaBackendOptions options{.cache_directory = directory.path()};
  const int before = test::algorithm_searches().load();
  BackendFixture first = cuda_backend(options);
  const std::string description = first.backend().make(kConv)->plan().description;
  // Forward and both gradients; the first search of each only loads kernels.
  EXPECT_EQ(test::algorithm_searches().load(), before + 9);
  first.backend().make(kConv);
  EXPECT_EQ(test::algorithm_searches().load(), before + 9);
  BackendFixture second = cuda_backend(options);
  EXPECT_EQ(second.backend().make(kConv)->plan().description, description);
  EXPECT_EQ(test::algorithm_searches().load(), before + 9);
  Conv2dDesc other = kConv;
  other.window.pad_h = 1;
  second.backend().make(other);
  EXPECT_EQ(test::algorithm_searches().load(), before + 18);
  BackendFixture third =
      cuda_backend({.precision = CudaPrecision::fp32, .cache_directory = directory.path()});
  third.backend().make(kConv);
  EXPECT_EQ(test::algorithm_searches().load(), before + 27);
}

TEST(CudaBackend, DoesNotCountTheTimeThatLoadingAKernelTakes) {
  Conv2dDesc desc = kConv;
  desc.needs_grad_input = false;
  // The first search, or one that something disturbed.
  for (const int searches : {1, 2}) {
    test::misleading_searches() = searches;
    EXPECT_THAT(conv_of({}, desc), ::testing::HasSubstr("algorithm 0)")) << searches;
    EXPECT_EQ(test::misleading_searches().load(), 0);
  }
}

// The stand-in's fastest algorithm does not repeat. Its second may add a bias without a ReLU.
TEST(CudaBackend, TakesOnlyRepeatableAlgorithmsWhenDeterministic) {
  BackendFixture fast = cuda_backend({.precision = CudaPrecision::tf32});
  BackendFixture deterministic =
      cuda_backend({.precision = CudaPrecision::tf32, .deterministic = true});
  EXPECT_THAT(fast.backend().make(kConv)->plan().description,
              ::testing::HasSubstr("tf32 algorithm 0)"));
  EXPECT_THAT(deterministic.backend().make(kConv)->plan().description,
              ::testing::HasSubstr("tf32 algorithm 1 fused)"));
}

TEST(CudaBackend, StrictTimesDecideWhatRunsStrictly) {
  EXPECT_THAT(conv_of({.precision = CudaPrecision::fp32}, kConv),
              ::testing::HasSubstr("fp32 algorithm 0)"));
}

// Times do not decide among repeatable ones: another is faster in every second network.
TEST(CudaBackend, SearchesAgainAndFindsTheSameWhenDeterministic) {
  for (const CudaPrecision precision :
       {CudaPrecision::fp32, CudaPrecision::tf32, CudaPrecision::bf16}) {
    const int before = test::algorithm_searches().load();
    std::map<std::string, cuda::AlgorithmChoice> found[2];
    for (auto& choices : found) {
      const CacheDirectory cold;
      conv_of({.precision = precision, .deterministic = true, .cache_directory = cold.path()},
              kConv);
      choices = cold.choices();
    }
    EXPECT_EQ(test::algorithm_searches().load(), before + 6);
    EXPECT_EQ(found[0], found[1]);
    EXPECT_EQ(found[0].size(), 3U);
    for (const auto& [key, choice] : found[0]) EXPECT_EQ(choice.algorithm, 1) << key;
    const LittleMemory nothing_can_be_searched;
    EXPECT_THAT(conv_of({.precision = precision, .deterministic = true}, kConv),
                ::testing::HasSubstr("algorithm 1)"));
  }
}

TEST(CudaBackend, PlansWithoutMemoryForMeasurements) {
  const CacheDirectory directory;
  const CudaBackendOptions options{.cache_directory = directory.path()};
  {
    const LittleMemory little;
    EXPECT_THAT(conv_of(options, kConv), ::testing::HasSubstr("algorithm 0)"));
  }
  EXPECT_TRUE(directory.choices().empty());  // with memory all is measured
  conv_of(options, kConv);
  EXPECT_EQ(directory.choices().size(), 3U);
}

TEST(CudaBackend, TakesTheOwnKernelUntriedWhereThereIsOne) {
  const CacheDirectory directory;
  CudaBackendOptions options{.cache_directory = directory.path()};
  const int before = test::algorithm_searches().load();
  EXPECT_THAT(conv_of(options, kFirstConv), ::testing::HasSubstr("(own kernel)"));
  EXPECT_EQ(test::algorithm_searches().load(), before);
  EXPECT_TRUE(directory.choices().empty());
  options.convolutions = ConvolutionKernels::library;
  EXPECT_THAT(conv_of(options, kFirstConv), ::testing::HasSubstr("(cudnn tf32 algorithm 0)"));
}

// The nodes of a training step of SimpleCNN, as docs/cuda-step.md lists them.
std::size_t nodes_of_a_step(const CudaBackendOptions& options) {
  BackendFixture fixture = cuda_backend(options);
  const nn::ModelSpec model = nn::load_model_file(SIMPLE_CNN);
  nn::Graph graph(model, fixture.device(), fixture.backend(), {.batch = 4});
  const CrossEntropyDesc desc{.batch = 4, .classes = model.classes()};
  const OpMemory workspace = fixture.allocate(fixture.backend().loss_workspace_bytes(desc));
  const OpMemory input = fixture.upload(random_values(4 * 784, 1));
  const OpMemory labels = fixture.upload(std::vector<std::int32_t>{1, 2, 3, 4});
  const OpMemory totals = fixture.upload(std::vector<LossTotals>(1));
  const auto floats = [](const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); };
  const auto step = [&] {
    graph.forward(fixture.stream(), reinterpret_cast<const float*>(input.data()));
    fixture.backend().loss(fixture.stream(), desc,
                           {.logits = graph.output(),
                            .labels = reinterpret_cast<const std::int32_t*>(labels.data()),
                            .samples = 4,
                            .grad_logits = graph.output_gradient(),
                            .totals = reinterpret_cast<LossTotals*>(totals.data()),
                            .workspace = workspace.data()});
    graph.backward(fixture.stream());
    fixture.backend().update(fixture.stream(), {.weights = floats(graph.weights()),
                                                .gradients = floats(graph.gradients()),
                                                .count = graph.plan().flat_bytes / sizeof(float),
                                                .options = {.momentum = 0}});
  };
  step();
  fixture.stream().begin_recording();
  step();
  fixture.stream().end_recording();
  return test::recorded_nodes();
}

TEST(CudaBackend, AStepHasNoMoreNodesThanTheyWereCounted) {
  const auto nodes = [](CudaPrecision precision, ConvolutionKernels convolutions) {
    return nodes_of_a_step({.precision = precision, .convolutions = convolutions});
  };
  EXPECT_EQ(nodes(CudaPrecision::tf32, ConvolutionKernels::own), 23U);
  EXPECT_EQ(nodes(CudaPrecision::tf32, ConvolutionKernels::library), 25U);
  EXPECT_EQ(nodes(CudaPrecision::bf16, ConvolutionKernels::own), 28U);
  EXPECT_EQ(nodes(CudaPrecision::bf16, ConvolutionKernels::library), 31U);
}

TEST(CudaBackend, SaysThatAnOldGpuLacksAPrecision) {
  test::compute_capability() = 75;
  EXPECT_NO_THROW(cuda_backend({.precision = CudaPrecision::fp32}));
  for (const CudaPrecision precision : {CudaPrecision::tf32, CudaPrecision::bf16}) {
    try {
      cuda_backend({.precision = precision});
      ADD_FAILURE() << "made a backend";
    } catch (const UnavailableError& error) {
      EXPECT_THAT(error.what(),
                  ::testing::HasSubstr("needs a GPU of compute capability 8.0 or later"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr(name_of(precision)));
    }
  }
  test::compute_capability() = 90;
}

TEST(CudaBackend, RefusesADeviceOfAnotherKind) {
  const auto device = make_cpu_device({});
  EXPECT_THROW(make_cuda_backend(*device, {}), InternalError);
}

TEST(CudaBackend, TellsItsLibraries) {
  const auto versions = cuda_library_versions();
  EXPECT_EQ(versions.at("cudnn"), "9.19.0");
  EXPECT_EQ(versions.at("cublaslt"), "13.1.0");
}

TEST(CudaBackend, HasANameAndNoUseForMicroBatches) {
  BackendFixture fixture = cuda_backend();
  EXPECT_EQ(fixture.backend().name(), "cuda");
  EXPECT_EQ(fixture.backend().micro_batch_hint(1 << 12), 0);
}

TEST(CudaBackend, RefusesTensorsThatItsIndicesCannotCount) {
  BackendFixture fixture = cuda_backend();
  try {
    fixture.backend().make(ActivationDesc{TensorLayout::plain({65536, 65536})});
    FAIL() << "planned 2^32 elements";
  } catch (const BatchTooLarge& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("relu on [65536, 65536]: 4294967296 elements"));
  }
  EXPECT_THROW(fixture.backend().make(conv({3352, 3, 224, 224}, 64, 7, 2, 3)), BatchTooLarge);
}

}  // namespace
}  // namespace ddpbench::ops::testing
