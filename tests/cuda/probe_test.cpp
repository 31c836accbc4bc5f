// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "base/error.h"
#include "kernels/runtime/cuda_device.h"

namespace ddpbench {
namespace {

// With or without a GPU: there are devices, or there is a reason.
TEST(CudaProbe, SaysWhyThereIsNoGpu) {
  const CudaProbe probe = probe_cuda();
  EXPECT_EQ(probe.devices.empty(), !probe.reason.empty()) << probe.reason;
  EXPECT_FALSE(probe.runtime_version.empty());
}

TEST(CudaProbe, FindsTheSameTwice) {
  EXPECT_EQ(probe_cuda().devices.size(), probe_cuda().devices.size());
  EXPECT_EQ(probe_cuda().reason, probe_cuda().reason);
}

TEST(CudaDevice, RefusesAGpuThatIsNotThere) {
  try {
    make_cuda_device({.index = 0, .ordinal = 4096});
    FAIL() << "made a device of GPU 4096";
  } catch (const UnavailableError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("there is no GPU 4096"));
  }
}

}  // namespace
}  // namespace ddpbench
