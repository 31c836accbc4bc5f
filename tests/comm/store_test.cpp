// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What every store must do, over both kinds of store.
#include "parallel/comm/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"

namespace ddpbench::comm {
namespace {

struct StoreUnderTest {
  std::unique_ptr<TcpStoreServer> server;
  std::shared_ptr<Store> store;
};

struct StoreKind {
  const char* name;
  std::function<StoreUnderTest()> make;
};

StoreUnderTest make_tcp() {
  TcpStoreOptions options;
  options.secret = "open sesame";
  StoreUnderTest made;
  made.server = make_tcp_store_server(options);
  options.port = made.server->port();
  made.store = connect_tcp_store(options);
  return made;
}

class StoreTest : public testing::TestWithParam<StoreKind> {
 protected:
  StoreUnderTest made_ = GetParam().make();
  Store& store() { return *made_.store; }
};

TEST_P(StoreTest, ReturnsWhatWasSetLast) {
  store().set("a", "first");
  store().set("a", "second");
  store().set("b", std::string("with\0zero", 9));
  EXPECT_EQ(store().get("a", 30), "second");
  EXPECT_EQ(store().get("b", 30), std::string("with\0zero", 9));
}

TEST_P(StoreTest, TellsTheClockOfItsHost) {
  const std::int64_t before = own_clock_ns();
  const std::int64_t told = store().clock_ns();
  EXPECT_LE(before, told);
  EXPECT_LE(told, own_clock_ns());
}

TEST_P(StoreTest, GetWaitsUntilAnotherThreadSetsTheKey) {
  std::thread setter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    store().set("late", "value");
  });
  EXPECT_EQ(store().get("late", 30), "value");
  setter.join();
}

TEST_P(StoreTest, GetThrowsTimeoutNamingTheKeyAndStaysUsable) {
  try {
    store().get("never", 0.02);
    FAIL() << "no timeout";
  } catch (const CommTimeout& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'never'"));
  }
  store().set("never", "now");
  EXPECT_EQ(store().get("never", 30), "now");
}

TEST_P(StoreTest, CountersAddUpOverThreads) {
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 25; ++k) store().add("counter", i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store().add("counter", 0), 25 * (1 + 2 + 3 + 4));
  EXPECT_EQ(store().add("counter", -300), -50);
  EXPECT_EQ(store().get("counter", 30), "-50");
}

TEST_P(StoreTest, RefusesToCountWhatIsNotANumber) {
  store().set("text", "seven");
  EXPECT_THROW(store().add("text", 1), CommError);
  store().set("most", "9223372036854775807");
  EXPECT_THROW(store().add("most", 1), CommError);
  EXPECT_EQ(store().get("most", 30), "9223372036854775807");
}

TEST_P(StoreTest, CarriesLargeValues) {
  std::string value(5'000'003, '\0');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7 + i / 253);
  store().set("large", value);
  EXPECT_EQ(store().get("large", 30), value);
}

TEST_P(StoreTest, BarrierPassesWhenAllHaveCome) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { store_barrier(store(), "all", 3, 30); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(StoreTest, BarrierTimeoutTellsHowManyCame) {
  try {
    store_barrier(store(), "lonely", 2, 0.02);
    FAIL() << "no timeout";
  } catch (const CommTimeout& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("1 of 2"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, StoreTest,
    testing::Values(StoreKind{"Local",
                              [] {
                                return StoreUnderTest{nullptr, make_local_store()};
                              }},
                    StoreKind{"Tcp", make_tcp}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace ddpbench::comm
