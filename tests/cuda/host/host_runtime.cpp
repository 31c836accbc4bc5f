// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the stand-in reports of its devices, which are all this host.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "tests/cuda/host/host_stream.h"

namespace {

constexpr int kMultiprocessors = 2;
constexpr int kL2Bytes = 1 << 16;

// STAND_IN_GPUS devices, or those that CUDA_VISIBLE_DEVICES lists before the first number that is
// no device.
std::vector<int> visible_gpus() {
  const char* const wanted = std::getenv("STAND_IN_GPUS");
  const int count = wanted == nullptr ? 1 : std::atoi(wanted);
  const char* const listed = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream numbers(listed == nullptr ? "" : listed);
  std::vector<int> visible;
  for (int i = 0; listed == nullptr && i < count; ++i) visible.push_back(i);
  for (std::string number; std::getline(numbers, number, ',');) {
    const int gpu = number.empty() ? -1 : std::atoi(number.c_str());
    if (gpu < 0 || gpu >= count) break;
    visible.push_back(gpu);
  }
  return visible;
}

}  // namespace

namespace ddpbench::test {

float round_to_tf32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

int& compute_capability() {
  static int capability = 90;
  return capability;
}

std::atomic<int>& misleading_searches() {
  static std::atomic<int> left{0};
  return left;
}

std::atomic<int>& algorithm_searches() {
  static std::atomic<int> searches = 0;
  return searches;
}

}  // namespace ddpbench::test

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return *count = static_cast<int>(visible_gpus().size()), cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return *can = device == peer ? 0 : 1, cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheHost"; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorStreamCaptureUnsupported:
      return "the stand-in: not while a stream is captured";
    case cudaErrorStreamCaptureIsolation:
      return "the stand-in: a capture may not depend on work outside of it";
    case cudaErrorStreamCaptureUnjoined:
      return "the stand-in: the capture's end does not follow all that was captured";
    default:
      return "an error of the stand-in";
  }
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = cudaDeviceProp{};
  const std::vector<int> visible = visible_gpus();
  properties->uuid.bytes[0] = static_cast<char>(visible.at(static_cast<std::size_t>(device)));
  std::strcpy(properties->name, "The host");
  properties->major = ddpbench::test::compute_capability() / 10;
  properties->minor = ddpbench::test::compute_capability() % 10;
  properties->multiProcessorCount = kMultiprocessors;
  properties->l2CacheSize = kL2Bytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const int capability = ddpbench::test::compute_capability();
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      return *value = capability / 10, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = capability % 10, cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      return *value = kMultiprocessors, cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int, int) {
  std::strcpy(id, "0000:00:00.0");
  return cudaSuccess;
}

}  // extern "C"
