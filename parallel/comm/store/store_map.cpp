// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/store/store_map.h"

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::comm {

const std::string* StoreMap::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::int64_t StoreMap::add(const std::string& key, std::int64_t amount) {
  std::int64_t value = 0;
  if (const std::string* text = find(key)) {
    const auto counter = number_in<std::int64_t>(*text);
    if (!counter) throw CommError(fmt::format("store key '{}' is not a counter", key));
    value = *counter;
  }
  if (__builtin_add_overflow(value, amount, &value)) {
    throw CommError(fmt::format("store counter '{}' overflows when {} is added", key, amount));
  }
  values_[key] = std::to_string(value);
  return value;
}

}  // namespace ddpbench::comm
