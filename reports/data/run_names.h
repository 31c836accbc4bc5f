// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a run is called in a sentence or a heading. Runs of different settings (settings.h) have
// different names.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "reports/data/report.h"

namespace ddpbench::report {

// "ps on 2 devices and 1 server".
std::string name_of(const std::string& strategy, int world_size, int servers);

// The backend's name, of a report that may be as old as the times when shm and ipc both were
// "ring". `device`: cpu | cuda; `cpu_servers`: servers on CPU devices serve workers on GPUs.
std::string backend_name_of(const std::string& written, const std::string& device,
                            bool cpu_servers);

class RunNames {
 public:
  // Tells these runs apart.
  explicit RunNames(std::span<const Run* const> runs);
  explicit RunNames(const Report& report);

  // "ps on 2 devices and 1 server (batch 32 a device, overlap off)": the brackets hold what differs
  // among the runs of the same strategy and number of devices. REQUIRES: `run` is one of those of
  // the constructor.
  std::string setting(const Run& run) const;
  // "..., repetition 2", counted from 1, where there are several.
  std::string with_repetition(const Run& run) const;

 private:
  struct Group {
    std::size_t runs = 0;
    std::map<std::string, std::size_t> stated;           // runs that state a setting, by its key
    std::map<std::string, std::set<std::string>> texts;  // all that is stated, by its key
    bool repeated = false;
  };
  void add(const Run& run);
  const Group& group_of(const Run& run) const;

  std::map<std::pair<std::string, int>, Group> groups_;
};

}  // namespace ddpbench::report
