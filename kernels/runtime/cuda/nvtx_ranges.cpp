// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RangeMarker on NVTX. Its headers are the whole implementation: they open the profiler's library
// when the environment names one (NVTX_INJECTION64_PATH, set by Nsight Systems).
#include <nvtx3/nvToolsExt.h>

#include <vector>

#include "kernels/runtime/range_marker.h"

namespace ddpbench {
namespace cuda {
namespace {

class NvtxRangeMarker final : public RangeMarker {
 public:
  NvtxRangeMarker() : domain_(nvtxDomainCreateA("ddpbench")) {}
  ~NvtxRangeMarker() override {
    if (domain_ != nullptr) nvtxDomainDestroy(domain_);
  }
  NvtxRangeMarker(const NvtxRangeMarker&) = delete;
  NvtxRangeMarker& operator=(const NvtxRangeMarker&) = delete;

  // Only a profiler hands out domains.
  bool is_heard() const noexcept override { return domain_ != nullptr; }

  std::size_t add_name(const std::string& name) override {
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    if (domain_ != nullptr) {
      range.message.registered = nvtxDomainRegisterStringA(domain_, name.c_str());
    }
    ranges_.push_back(range);
    return ranges_.size() - 1;
  }

  void push(std::size_t name) noexcept override {
    if (domain_ != nullptr) nvtxDomainRangePushEx(domain_, &ranges_[name]);
  }
  void pop() noexcept override {
    if (domain_ != nullptr) nvtxDomainRangePop(domain_);
  }

 private:
  nvtxDomainHandle_t domain_;
  std::vector<nvtxEventAttributes_t> ranges_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<RangeMarker> make_nvtx_range_marker() {
  return std::make_unique<cuda::NvtxRangeMarker>();
}

}  // namespace ddpbench
