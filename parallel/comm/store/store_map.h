// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The key/value map behind every store: what set, get and add mean, without any waiting or sockets.
// Not thread-safe: its owner locks.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ddpbench::comm {

class StoreMap {
 public:
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  // Null when absent; valid until the next change.
  const std::string* find(const std::string& key) const;
  // Counters are kept as decimal text, so that get() shows them. Throws CommError when the key
  // holds something that is not a number, or on overflow.
  std::int64_t add(const std::string& key, std::int64_t amount);

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace ddpbench::comm
