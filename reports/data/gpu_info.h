// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says about GPUs: their properties, how they are connected, and what they did during
// a run. This is a part of report.h: include that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/known.h"

namespace ddpbench::report {

// Bytes that all processes together use on a GPU, as the driver told after each stage of a rank's
// set-up: "with_context", "with_libraries" (handles of cuDNN and cuBLAS), "with_communicators"
// (buffers of NCCL), and "at_end". The difference of two stages is what the later one added.
using DriverBytes = std::map<std::string, std::uint64_t>;

// The link from one GPU to another of the same host.
struct GpuLink {
  int to = 0;               // index in environment.gpus
  Known<bool> peer_access;  // copies can bypass the host's memory
  Known<int> nvlinks;       // NVLinks to it, or to a switch that connects both; 0: none
  Known<int> nvlink_version;
  Known<std::string> pcie_path;  // where the PCIe paths of both meet: "same_board", ..., "system"
};

struct GpuInfo {
  std::string name, driver;
  std::uint64_t memory_bytes = 0;
  // Empty or 0 where the driver did not tell. Reports from before these keys lack all of them.
  std::string uuid, pci_bus_id;
  std::string compute_capability;  // "9.0"
  int multiprocessors = 0;
  std::uint64_t l2_bytes = 0;
  Known<int> numa_node;
  Known<int> pcie_generation, pcie_width;
  std::vector<GpuLink> links;
};

// The range of the samples of one figure.
struct SampleRange {
  double median = 0, min = 0, max = 0;
};

// What one GPU did while a run trained, sampled a few times a second.
struct GpuTelemetry {
  std::int64_t samples = 0;
  double interval_s = 0;  // between two samples
  // The share of the driver's own period (1/6 s to 1 s) in which any kernel ran. It says how long
  // the GPU was busy, not how much of it was.
  Known<SampleRange> utilization_ratio;
  Known<SampleRange> sm_clock_mhz, memory_clock_mhz;
  Known<SampleRange> power_w;
  Known<SampleRange> temperature_celsius;
  // The share of the samples with each reason for which clocks were held down or the GPU was idle.
  Known<std::map<std::string, double>> clock_event_ratios;
};

}  // namespace ddpbench::report
