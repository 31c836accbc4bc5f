// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How ranks meet over Gloo among strangers: who comes to a rank's port in a peer's place, first or
// each time, and what a rank hears that waits in vain.
#include "parallel/comm/gloo/gloo.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

EngineOptions options_with(double timeout_s) {
  EngineOptions options;
  options.timeout_s = timeout_s;
  return options;
}

// What a stranger knows who connects to a rank's port in the place of rank 1: where the ranks are,
// and no token. Rank 1 itself has laid these tokens.
class StoreOfAStranger : public Store {
 public:
  explicit StoreOfAStranger(Store& store) : store_(store) {}
  void set(const std::string& key, const std::string& value) override {
    const bool is_tokens = key.ends_with("_tokens");
    store_.set(key, is_tokens ? std::string(value.size(), '7') : value);
  }
  std::string get(const std::string& key, double timeout_s) override {
    return store_.get(key, timeout_s);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return store_.add(key, amount);
  }

 private:
  Store& store_;
};

TEST(GlooRendezvous, RefusesAStrangerInThePlaceOfARank) {
  const auto store = make_local_store();
  const EngineOptions options = options_with(20);
  std::thread stranger([&] {
    StoreOfAStranger known(*store);
    try {
      make_gloo(known, 1, 2, options);
    } catch (const CommError&) {
      // Rank 0 has closed the connection.
    }
  });
  std::string refused;
  try {
    make_gloo(*store, 0, 2, options);
  } catch (const CommError& error) {
    refused = error.what();
  }
  stranger.join();
  EXPECT_THAT(refused, HasSubstr("the connection that came for rank 1 does not lead there"));
}

// Strangers come to Gloo's ports of the first attempts before any rank knows them, and say `words`.
// They hold their connections.
class StoreWithStrangers : public Store {
 public:
  StoreWithStrangers(Store& store, int attempts, std::string words)
      : store_(store), attempts_(attempts), words_(std::move(words)) {}
  void set(const std::string& key, const std::string& value) override {
    // Gloo's key for the addresses of a rank is its number. Between two ranks it has one.
    const bool is_address = key.ends_with("/0") || key.ends_with("/1");
    for (int attempt = 0; is_address && attempt < attempts_; ++attempt) {
      if (key.find(fmt::format("/gloo/{}/", attempt)) != std::string::npos) come_to(value);
    }
    store_.set(key, value);
  }
  std::string get(const std::string& key, double timeout_s) override {
    return store_.get(key, timeout_s);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return store_.add(key, amount);
  }
  std::size_t came() const { return strangers_.size(); }

 private:
  void come_to(const std::string& address) {
    sockaddr_in place{};  // an address of Gloo's begins with that of the socket
    ASSERT_GE(address.size(), sizeof place);
    std::memcpy(&place, address.data(), sizeof place);
    FileDescriptor stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place),
              0);
    ASSERT_EQ(::send(stranger.get(), words_.data(), words_.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words_.size()));
    strangers_.push_back(std::move(stranger));
  }

  Store& store_;
  const int attempts_;
  const std::string words_;
  std::vector<FileDescriptor> strangers_;
};

// What the ranks of a world of two got, in which strangers come to both first.
struct AmongStrangers {
  std::vector<std::string> errors;  // [rank]; empty: it has all-reduced
  std::size_t strangers = 0;
};

AmongStrangers meet_among_strangers(int attempts, const std::string& words, double timeout_s) {
  const auto store = make_local_store();
  const EngineOptions options = options_with(timeout_s);
  AmongStrangers result{std::vector<std::string>(2)};
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      StoreWithStrangers known(*store, attempts, words);
      try {
        const auto comm = make_gloo(known, rank, 2, options);
        float value = 1;
        comm->all_reduce({&value, 1, DataType::fp32}, ReduceOp::sum).synchronize();
        EXPECT_EQ(value, 2);
      } catch (const CommError& error) {
        result.errors[static_cast<std::size_t>(rank)] = error.what();
      }
      const std::lock_guard lock(mutex);
      result.strangers += known.came();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

TEST(GlooRendezvous, GoesOnWhenAStrangerWasFasterThanARank) {
  for (const std::string words : {"", "GET / HTTP/1.0\r\n\r\n"}) {
    const AmongStrangers met = meet_among_strangers(1, words, 8);
    EXPECT_THAT(met.errors, Each(std::string())) << words;
    EXPECT_EQ(met.strangers, 2) << words;
  }
}

TEST(GlooRendezvous, GivesUpWhenStrangersAreFasterEachTime) {
  const AmongStrangers met = meet_among_strangers(4, "", 2);
  EXPECT_EQ(met.strangers, 8);
  EXPECT_THAT(met.errors, Each(HasSubstr("Gloo cannot connect the ranks")));
}

TEST(GlooRendezvous, TimesOutNamingTheRankThatDoesNotJoin) {
  const auto store = make_local_store();
  const EngineOptions options = options_with(0.2);
  try {
    make_gloo(*store, 1, 2, options);
    FAIL() << "no error";
  } catch (const CommTimeout& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 did not join"));
  }
}

}  // namespace
}  // namespace ddpbench::comm::testing
