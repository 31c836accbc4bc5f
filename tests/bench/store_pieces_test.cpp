// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that travels through a store in pieces.
#include "bench/joined/joined_shares.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

constexpr PieceOptions kSmallPieces{.piece_bytes = 1000, .ahead = 2, .timeout_s = 20};

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 251);
  return data;
}

// Sends `data` to so many threads through a store of `client`s. Returns what each received.
std::vector<std::vector<std::byte>> travel(const std::vector<std::byte>& data, int receivers,
                                           const PieceOptions& options) {
  const auto server = comm::make_tcp_store_server({.secret = "secret"});
  const comm::TcpStoreOptions client{.port = server->port(), .secret = "secret"};
  std::vector<std::vector<std::byte>> received(static_cast<std::size_t>(receivers));
  std::vector<std::thread> threads;
  for (auto& one : received) {
    threads.emplace_back([&, receivers] {
      one.resize(data.size());
      receive_pieces(*comm::connect_tcp_store(client), "key", one, receivers, options);
    });
  }
  const auto store = comm::connect_tcp_store(client);
  send_pieces(*store, "key", data, receivers, options);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->get("key/0", 1), "") << "the store keeps what all have taken";
  return received;
}

TEST(StorePieces, ArriveAtAllReceivers) {
  for (const std::size_t bytes : {1, 999, 1000, 1001, 12'345}) {
    const auto data = numbered(bytes);
    for (const auto& one : travel(data, 3, kSmallPieces)) EXPECT_TRUE(one == data) << bytes;
  }
}

TEST(StorePieces, CarryTheWeightsOfALargeNetwork) {
  const auto data = numbered(std::size_t{250} << 20);
  for (const auto& one : travel(data, 1, {.timeout_s = 60})) EXPECT_TRUE(one == data);
}

TEST(StorePieces, RefuseWhatIsDamagedOrOfAnotherLength) {
  const auto store = comm::make_local_store();
  const auto data = numbered(1500);
  std::vector<std::byte> into(1500);
  std::thread sender([&] {
    EXPECT_THROW(send_pieces(*store, "key", data, 1, {.piece_bytes = 1000, .timeout_s = 1}),
                 CommTimeout);
  });
  std::string piece = store->get("key/0", 20);
  piece.back() ^= 1;
  store->set("key/0", piece);
  EXPECT_THROW(receive_pieces(*store, "key", into, 1, kSmallPieces), CommError);
  into.resize(1501);
  EXPECT_THROW(receive_pieces(*store, "key", into, 1, kSmallPieces), CommError);
  sender.join();
}

}  // namespace
}  // namespace ddpbench::bench
