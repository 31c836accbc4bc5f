// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What only the stand-in for a GPU can show: searches, refusals, a device of another generation.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "kernels/runtime/cpu_device.h"
#include "kernels/runtime/cuda_device.h"
#include "kernels/runtime/error.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/cuda/host/host_stream.h"

namespace ddpbench::ops::testing {
namespace {

const Conv2dDesc kConv = {
    .input = TensorLayout::plain({2, 3, 6, 6}), .out_channels = 4, .kernel_h = 3, .kernel_w = 3};

TEST(CudaBackend, SearchesOnceForAShapeAndRemembersItOnDisk) {
  const auto directory =
      std::filesystem::temp_directory_path() / ("ddpbench-search-" + std::to_string(::getpid()));
  std::filesystem::remove_all(directory);
  const CudaBackendOptions options{.cache_directory = directory.string()};
  const int before = test::algorithm_searches();
  BackendFixture first = cuda_backend(options);
  const std::string description = first.backend().conv2d(kConv)->description();
  EXPECT_EQ(test::algorithm_searches(), before + 3);  // forward and both gradients
  first.backend().conv2d(kConv);
  EXPECT_EQ(test::algorithm_searches(), before + 3);
  BackendFixture second = cuda_backend(options);
  EXPECT_EQ(second.backend().conv2d(kConv)->description(), description);
  EXPECT_EQ(test::algorithm_searches(), before + 3);
  Conv2dDesc other = kConv;
  other.pad_h = 1;
  second.backend().conv2d(other);
  EXPECT_EQ(test::algorithm_searches(), before + 6);
  BackendFixture third =
      cuda_backend({.precision = CudaPrecision::fp32, .cache_directory = directory.string()});
  third.backend().conv2d(kConv);
  EXPECT_EQ(test::algorithm_searches(), before + 9);
  std::filesystem::remove_all(directory);
}

// The stand-in's fastest algorithm does not repeat; its second may add a bias without a ReLU.
TEST(CudaBackend, TakesOnlyRepeatableAlgorithmsWhenDeterministic) {
  BackendFixture fast = cuda_backend({.precision = CudaPrecision::tf32});
  BackendFixture deterministic =
      cuda_backend({.precision = CudaPrecision::tf32, .deterministic = true});
  EXPECT_THAT(fast.backend().conv2d(kConv)->description(),
              ::testing::HasSubstr("tf32 algorithm 0)"));
  EXPECT_THAT(deterministic.backend().conv2d(kConv)->description(),
              ::testing::HasSubstr("tf32 algorithm 1 fused)"));
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
  EXPECT_THROW(make_cuda_backend(*device, {}), UnavailableError);
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
    fixture.backend().relu({TensorLayout::plain({65536, 65536})});
    FAIL() << "planned 2^32 elements";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("relu on [65536, 65536]: 4294967296 elements"));
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
