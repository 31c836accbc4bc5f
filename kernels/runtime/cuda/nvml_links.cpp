// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cuda/nvml_links.h"

#include <algorithm>

namespace ddpbench::cuda {
namespace {

// An active link of one GPU and what is at its other end.
struct Link {
  int remote = 0;  // NvmlRemote
  NvmlPci pci{};   // of a remote GPU
  int version = 0;
};

struct Links {
  std::vector<Link> active;
  NvmlPci own{};
  std::string reason;  // why the links are not known; empty: they are
};

bool same_place(const NvmlPci& a, const NvmlPci& b) {
  return a.domain == b.domain && a.bus == b.bus && a.device == b.device;
}

// Reads link `index`, which is active. Returns false when NVML does not say where it leads.
bool read_link(const NvmlLibrary& library, const Gpu& gpu, unsigned index, Links& links) {
  const Caller call{library, gpu.reason};
  const NvmlFunctions& f = library.functions();
  Link link;
  links.reason = call(f.link_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType", gpu.device, index,
                      &link.remote);
  if (!links.reason.empty()) return false;
  if (link.remote == kNvmlRemoteGpu) {
    links.reason = call(f.link_remote_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2", gpu.device, index,
                        &link.pci);
    if (!links.reason.empty()) return false;
  }
  unsigned version = 0;
  if (call(f.link_version, "nvmlDeviceGetNvLinkVersion", gpu.device, index, &version).empty()) {
    link.version = static_cast<int>(version);
  }
  links.active.push_back(link);
  return true;
}

Links links_of(const NvmlLibrary& library, const Gpu& gpu) {
  const Caller call{library, gpu.reason};
  const NvmlFunctions& f = library.functions();
  Links links;
  links.reason = call(f.pci, "nvmlDeviceGetPciInfo_v3", gpu.device, &links.own);
  if (!links.reason.empty()) return links;
  if (f.link_state == nullptr) {
    links.reason = call(f.link_state, "nvmlDeviceGetNvLinkState", gpu.device, 0U, nullptr);
    return links;
  }
  for (unsigned i = 0; i < kNvmlMostLinks; ++i) {
    int active = 0;
    const NvmlReturn status = f.link_state(gpu.device, i, &active);
    // A GPU has between none and all of the links.
    if (status == kNvmlInvalidArgument || status == kNvmlNotSupported) continue;
    if (status != kNvmlSuccess) {
      links.reason = fmt::format("nvmlDeviceGetNvLinkState: {}", library.error_text(status));
      return links;
    }
    if (active != 0 && !read_link(library, gpu, i, links)) return links;
  }
  return links;
}

int count_to(const Links& from, const NvmlPci& place) {
  return static_cast<int>(std::ranges::count_if(from.active, [&](const Link& link) {
    return link.remote == kNvmlRemoteGpu && same_place(link.pci, place);
  }));
}

int count_to_switch(const Links& from) {
  return static_cast<int>(std::ranges::count(from.active, int{kNvmlRemoteSwitch}, &Link::remote));
}

void tell_links(const Links& from, const Links& to, GpuConnection& connection) {
  const std::string& reason = from.reason.empty() ? to.reason : from.reason;
  connection.nvlinks.reason = connection.nvlink_version.reason = reason;
  if (!reason.empty()) return;
  // Switches count as connected to each other, as on all boards that have them.
  const int count =
      std::max(count_to(from, to.own), std::min(count_to_switch(from), count_to_switch(to)));
  connection.nvlinks.value = count;
  if (count == 0) {
    connection.nvlink_version.reason = "no NVLink between the two";
  } else if (from.active[0].version == 0) {
    connection.nvlink_version.reason = "NVML does not tell it";
  } else {
    connection.nvlink_version.value = from.active[0].version;
  }
}

const char* path_name(int level) {
  switch (level) {
    case kNvmlLevelInternal:
      return "same_board";
    case kNvmlLevelSingle:
      return "one_switch";
    case kNvmlLevelMultiple:
      return "switches";
    case kNvmlLevelHostBridge:
      return "host_bridge";
    case kNvmlLevelNode:
      return "numa_node";
    case kNvmlLevelSystem:
      return "system";
    default:
      return nullptr;
  }
}

Known<std::string> path_between(const NvmlLibrary& library, const Gpu& from, const Gpu& to) {
  const Caller call{library, from.reason.empty() ? to.reason : from.reason};
  int level = 0;
  std::string why = call(library.functions().common_ancestor, "nvmlDeviceGetTopologyCommonAncestor",
                         from.device, to.device, &level);
  if (!why.empty()) return {std::nullopt, std::move(why)};
  const char* const name = path_name(level);
  if (name == nullptr) return {std::nullopt, fmt::format("NVML tells an unknown level {}", level)};
  return {name, {}};
}

}  // namespace

std::vector<GpuConnection> connections_of(const NvmlLibrary& library,
                                          const std::vector<Gpu>& gpus) {
  std::vector<GpuConnection> connections;
  if (gpus.size() < 2) return connections;
  std::vector<Links> links;
  for (const Gpu& gpu : gpus) links.push_back(links_of(library, gpu));
  for (std::size_t from = 0; from < gpus.size(); ++from) {
    for (std::size_t to = 0; to < gpus.size(); ++to) {
      if (from == to) continue;
      GpuConnection connection{.from = from,
                               .to = to,
                               .nvlinks = {},
                               .nvlink_version = {},
                               .pcie_path = path_between(library, gpus[from], gpus[to])};
      tell_links(links[from], links[to], connection);
      connections.push_back(std::move(connection));
    }
  }
  return connections;
}

}  // namespace ddpbench::cuda
