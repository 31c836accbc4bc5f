// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How things that were measured are named: by what tells them apart. Runs of different settings
// (settings.h) have different names.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// What may tell a thing from others, in words.
struct TellingWords {
  std::string key;          // of the setting
  std::string words;        // not empty
  std::string scope;        // compared with things that have words of this scope; empty: with all
  bool lack_tells = false;  // also where some of its peers (without a scope: of all) have none
};
struct Told {
  std::string peers;
  std::vector<TellingWords> words;
};
// The scopes and keys of the words that tell.
std::set<std::pair<std::string, std::string>> telling(std::span<const Told> all);

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
  const std::string& setting(const Run& run) const { return names_.at(&run); }
  // The same with ", repetition 2" (counted from 1) where runs were repeated.
  std::string with_repetition(const Run& run) const;

 private:
  std::map<const Run*, std::string> names_;
  std::set<std::string> repeated_;  // the strategies and numbers of devices of such runs
};

}  // namespace ddpbench::report
