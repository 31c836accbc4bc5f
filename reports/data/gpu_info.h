// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says of GPUs: what they are, how they are connected, and what they did during a
// run. Part of report.h, which is what others include.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddpbench::report {

// Something that the driver may not tell: null beside "<key>_reason" in JSON.
template <typename T>
struct Known {
  std::optional<T> value;
  std::string reason;  // empty beside a value

  static Known of(T v) { return {std::move(v), {}}; }
  static Known missing(std::string why) { return {std::nullopt, std::move(why)}; }
};

// Bytes in use on a whole GPU, by whomever, as its driver told after each stage of a rank's set-up:
// "with_context", "with_libraries" (cuDNN's and cuBLAS's handles), "with_communicators" (NCCL's
// buffers), and "at_end". What one stage added is the difference from the one before.
using DriverBytes = std::map<std::string, std::uint64_t>;

// From one GPU to another of the same host.
struct GpuLink {
  int to = 0;               // index in environment.gpus
  Known<bool> peer_access;  // copies need not go through the host's memory
  Known<int> nvlinks;       // to it, or to a switch that both are at; 0: none
  Known<int> nvlink_version;
  Known<std::string> pcie_path;  // where their ways meet: "same_board", ..., "system"
};

struct GpuInfo {
  std::string name, driver;
  std::uint64_t memory_bytes = 0;
  // Empty and 0: not told. Reports from before these keys have none of them.
  std::string uuid, pci_bus_id;
  std::string compute_capability;  // "9.0"
  int multiprocessors = 0;
  std::uint64_t l2_bytes = 0;
  Known<int> numa_node;
  Known<int> pcie_generation, pcie_width;
  std::vector<GpuLink> links;
};

struct SampleRange {  // of the samples of one figure
  double median = 0, min = 0, max = 0;
};

// What one GPU did while a run trained, from samples a few times a second.
struct GpuTelemetry {
  std::int64_t samples = 0;
  double interval_s = 0;  // between them
  // Share of the driver's own period (a sixth of a second to a second) in which any kernel ran:
  // how long the GPU was busy, not how much of it.
  Known<SampleRange> utilization_ratio;
  Known<SampleRange> sm_clock_mhz, memory_clock_mhz;
  Known<SampleRange> power_w;
  Known<SampleRange> temperature_celsius;
  // Why clocks were held down, or the GPU was idle: share of the samples, of reasons that were met.
  Known<std::map<std::string, double>> clock_event_ratios;
};

}  // namespace ddpbench::report
