// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How a run is named in a sentence or a heading. Runs of different settings (settings.h) have
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

class RunNames {
 public:
  // The names tell these runs apart.
  explicit RunNames(std::span<const Run* const> runs);
  explicit RunNames(const Report& report);

  // "ps on 2 devices and 1 server (batch 32 a device, overlap off)": the brackets hold the settings
  // that differ among runs of the same strategy and number of devices. REQUIRES: `run` was given to
  // the constructor.
  std::string setting(const Run& run) const;
  // The same with ", repetition 2" (counted from 1) where runs were repeated.
  std::string with_repetition(const Run& run) const;

 private:
  struct Group {
    std::size_t runs = 0;
    std::map<std::string, std::size_t> stated;  // setting key -> how many runs state it
    std::map<std::string, std::set<std::string>>
        texts;  // setting key -> the different words for it
    bool repeated = false;
  };
  void add(const Run& run);
  const Group& group_of(const Run& run) const;

  std::map<std::pair<std::string, int>, Group> groups_;
};

}  // namespace ddpbench::report
