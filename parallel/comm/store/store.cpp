// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The in-process store, and the barrier over any store.
#include "parallel/comm/store/store.h"

#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

namespace {

class LocalStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    {
      const std::lock_guard lock(mutex_);
      map_.set(key, value);
    }
    changed_.notify_all();
  }

  std::string get(const std::string& key, double timeout_s) override {
    std::unique_lock lock(mutex_);
    const Deadline deadline = deadline_after(timeout_s);
    while (map_.find(key) == nullptr) {
      if (has_passed(deadline)) {
        throw CommTimeout(fmt::format("store key '{}' was not set within {} s", key, timeout_s));
      }
      changed_.wait_for(lock, sleep_until_look(deadline));
    }
    return *map_.find(key);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    std::int64_t value = 0;
    {
      const std::lock_guard lock(mutex_);
      value = map_.add(key, amount);
    }
    changed_.notify_all();
    return value;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  StoreMap map_;
};

}  // namespace

std::int64_t Store::clock_ns() { return own_clock_ns(); }

std::int64_t own_clock_ns() { return static_cast<std::int64_t>(steady_s() * 1e9); }

std::shared_ptr<Store> make_local_store() { return std::make_shared<LocalStore>(); }

void store_barrier(Store& store, const std::string& name, int count, double timeout_s) {
  const std::string arrived = "barrier/" + name + "/arrived";
  const std::string open = "barrier/" + name + "/open";
  if (store.add(arrived, 1) == count) store.set(open, "1");
  try {
    store.get(open, timeout_s);
  } catch (const CommTimeout&) {
    throw CommTimeout(fmt::format("store barrier '{}': {} of {} ranks came within {} s", name,
                                  store.add(arrived, 0), count, timeout_s));
  }
}

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
