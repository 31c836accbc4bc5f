// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The TCP store among strangers: wrong secrets, garbage, occupied ports, dead servers.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "parallel/comm/store/store.h"
#include "parallel/comm/store/tcp_store_protocol.h"

namespace ddpbench::comm {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TcpStoreOptions options_for(int port, const std::string& secret = "right") {
  TcpStoreOptions options;
  options.port = port;
  options.secret = secret;
  return options;
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Its reads give up after a second.
FileDescriptor connect_to(int port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  const timeval second{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  return socket;
}

void send(const FileDescriptor& socket, const std::string& bytes) {
  ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string receive(const FileDescriptor& socket, std::size_t bytes) {
  std::string text(bytes, '\0');
  EXPECT_EQ(::recv(socket.get(), text.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  return text;
}

// All that comes until the other side closes.
std::string receive_rest(const FileDescriptor& socket) {
  std::string answer;
  char buffer[256];
  ssize_t count = 0;
  while ((count = ::recv(socket.get(), buffer, sizeof buffer, 0)) > 0) {
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  return answer;
}

// Sends bytes and returns all that comes back. With a secret it proves that first.
std::string talk(int port, const std::string& bytes, const std::string& secret = "") {
  const FileDescriptor socket = connect_to(port);
  if (!secret.empty()) {
    const std::string nonce =
        receive(socket, kGreeting.size() + kNonceBytes).substr(kGreeting.size());
    const std::string own(kNonceBytes, '7');
    send(socket, frame(own + store_proof(secret, nonce, own, port, "client")));
  }
  send(socket, bytes);
  return receive_rest(socket);
}

// A foreign server: accepts connections (by its backlog) and says nothing, unless accept() is used.
class SilentListener {
 public:
  FileDescriptor accept() const {
    return FileDescriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  SilentListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(socket_.get(), 16), 0);
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  FileDescriptor socket_;
  int port_ = 0;
};

TEST(TcpStore, RefusesTheWrongSecret) {
  const auto server = make_tcp_store_server(options_for(0));
  for (const std::string secret : {"wrong", "righ", "right!", "r"}) {
    EXPECT_THROW(connect_tcp_store(options_for(server->port(), secret)), CommError) << secret;
  }
  connect_tcp_store(options_for(server->port()))->set("key", "still serving");
}

// A stranger who listens where rank 0 was to: he greets as ours do, and takes every proof.
TEST(TcpStore, TellsTheSecretToNobodyAndTakesNoServerWithoutIt) {
  const SilentListener stranger;
  TcpStoreOptions options = options_for(stranger.port(), "a secret of the job");
  options.timeout_s = 0.2;
  std::thread client([&] { EXPECT_THROW(connect_tcp_store(options), CommError); });
  const FileDescriptor socket = stranger.accept();
  const std::string greeting = std::string(kGreeting) + std::string(kNonceBytes, 'n');
  send(socket, greeting);
  const std::string said = receive(socket, 4 + kNonceBytes + kProofBytes);
  EXPECT_THAT(said, Not(HasSubstr("secret")));
  const std::string taken = frame("o" + said.substr(4 + kNonceBytes));
  send(socket, taken);
  EXPECT_EQ(receive_rest(socket), "") << "a request for a stranger";
  client.join();
}

// He hands on to the true server, at another port, what he hears from the client.
TEST(TcpStore, TakesNoProofThatWasMadeForAnotherPort) {
  const auto server = make_tcp_store_server(options_for(0));
  const SilentListener stranger;
  std::thread client([port = stranger.port()] {
    TcpStoreOptions options = options_for(port);
    options.timeout_s = 0.2;
    EXPECT_THROW(connect_tcp_store(options), CommError);
  });
  const FileDescriptor victim = stranger.accept(), own = connect_to(server->port());
  const std::string greeting = receive(own, kGreeting.size() + kNonceBytes);
  send(victim, greeting);
  const std::string proof = receive(victim, 4 + kNonceBytes + kProofBytes);
  send(own, proof);
  EXPECT_EQ(receive_rest(own), frame("r"));
  client.join();
}

TEST(TcpStore, IsNotServedTwiceToTheSameClients) {
  TcpStoreOptions options = options_for(0);
  const auto first = make_tcp_store_server(options);
  options.port = first->port();
  options.tries = 16;
  EXPECT_THAT([&] { make_tcp_store_server(options); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("another job with the same secret")));
  options.secret = "another";
  EXPECT_GT(make_tcp_store_server(options)->port(), first->port());
}

TEST(TcpStore, EndsItsSearchWhenTheCallersCheckThrows) {
  const SilentListener stranger;
  TcpStoreOptions options = options_for(stranger.port());
  options.check = [] { throw InternalError("a peer has ended"); };
  EXPECT_THROW(connect_tcp_store(options), InternalError);
}

TEST(TcpStore, HandsStreamsOn) {
  std::promise<FileDescriptor> taken;
  TcpStoreOptions options = options_for(0);
  options.streams = [&taken](FileDescriptor socket) { taken.set_value(std::move(socket)); };
  const auto server = make_tcp_store_server(options);
  const FileDescriptor own = open_store_stream(options_for(server->port()));
  const FileDescriptor other = taken.get_future().get();
  ASSERT_EQ(::send(other.get(), "word", 4, 0), 4);
  std::array<char, 8> heard{};
  pollfd ready{own.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ready, 1, 10000), 1);
  EXPECT_EQ(::recv(own.get(), heard.data(), heard.size(), 0), 4);
  EXPECT_STREQ(heard.data(), "word");
  connect_tcp_store(options_for(server->port()))->set("still", "served");
}

TEST(TcpStore, HandsNoStreamsOnWhereNobodyTakesThem) {
  const auto server = make_tcp_store_server(options_for(0));
  EXPECT_THROW(open_store_stream(options_for(server->port())), CommError);
}

TEST(TcpStore, AnswersNothingBeforeTheSecret) {
  const auto server = make_tcp_store_server(options_for(0));
  connect_tcp_store(options_for(server->port()))->set("key", "treasure");
  const std::string answer = talk(server->port(), encode({Request::get, "key", ""}));
  EXPECT_THAT(answer, Not(HasSubstr("treasure")));
  EXPECT_THAT(answer, StartsWith(std::string(kGreeting)));
  EXPECT_EQ(answer.substr(kGreeting.size() + kNonceBytes), frame("r"));
}

TEST(TcpStore, SurvivesGarbage) {
  const auto server = make_tcp_store_server(options_for(0));
  const auto store = connect_tcp_store(options_for(server->port()));
  store->set("key", "value");
  talk(server->port(), std::string(100'000, '\xff'));
  talk(server->port(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  talk(server->port(), std::string("\xff\xff\xff\xff", 4), "right");  // a frame of 4 GiB
  talk(server->port(), frame(""), "right");
  talk(server->port(), frame("g"), "right");
  talk(server->port(), frame(std::string("s\xff\xff\xff\x7fkey", 8)), "right");  // key of 2 GiB
  talk(server->port(), frame(std::string("a\x03\0\0\0key", 8)), "right");        // no amount
  talk(server->port(), frame(std::string("?\x03\0\0\0key", 8)), "right");
  EXPECT_EQ(store->get("key", 30), "value");
}

TEST(TcpStore, ServesOthersWhileAStrangerHoldsAConnectionOpen) {
  const auto server = make_tcp_store_server(options_for(0));
  const FileDescriptor stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(server->port());
  ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  const auto store = connect_tcp_store(options_for(server->port()));
  store->set("key", "value");
  EXPECT_EQ(store->get("key", 30), "value");
}

TEST(TcpStore, LetsAClientInAmongStrangers) {
  const auto server = make_tcp_store_server(options_for(0));
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connect_to(server->port()));
    if (i % 3 == 1) send(strangers.back(), "\xff\xff");
  }
  const auto store = connect_tcp_store(options_for(server->port()));
  store->set("key", "value");
  EXPECT_EQ(store->get("key", 30), "value");
}

TEST(TcpStore, RefusesKeysAndValuesOverTheLimit) {
  const auto server = make_tcp_store_server(options_for(0));
  const auto store = connect_tcp_store(options_for(server->port()));
  EXPECT_THROW(store->set(std::string(kMaxKeyBytes + 1, 'k'), ""), CommError);
  EXPECT_THROW(store->set("", "v"), CommError);
  EXPECT_THROW(store->set("k", std::string(kMaxValueBytes + 1, 'v')), CommError);
  store->set(std::string(kMaxKeyBytes, 'k'), "v");
  EXPECT_EQ(store->get(std::string(kMaxKeyBytes, 'k'), 30), "v");
}

TEST(TcpStore, ServerTakesTheNextPortWhenAStrangerHasTheFirst) {
  const SilentListener stranger;
  TcpStoreOptions options = options_for(stranger.port());
  options.tries = 16;
  const auto server = make_tcp_store_server(options);
  EXPECT_GT(server->port(), stranger.port());
  // The client passes over the silent one.
  const auto store = connect_tcp_store(options);
  store->set("key", "value");
  EXPECT_EQ(store->get("key", 30), "value");
}

TEST(TcpStore, ServerWithOneTryReportsTheOccupiedPort) {
  const SilentListener stranger;
  EXPECT_THROW(make_tcp_store_server(options_for(stranger.port())), CommError);
}

TEST(TcpStore, ClientPassesOverTheStoreOfAnotherJob) {
  const auto other = make_tcp_store_server(options_for(0, "other job"));
  TcpStoreOptions options = options_for(other->port());
  options.tries = 16;
  const auto server = make_tcp_store_server(options);
  connect_tcp_store(options)->set("key", "value");
}

TEST(TcpStore, ClientWaitsForAServerThatComesLate) {
  const int port = make_tcp_store_server(options_for(0))->port();  // free again
  std::unique_ptr<TcpStoreServer> server;
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    server = make_tcp_store_server(options_for(port));
  });
  connect_tcp_store(options_for(port))->set("key", "value");
  late.join();
}

TEST(TcpStore, HostsMayBeGivenByName) {
  TcpStoreOptions options = options_for(0);
  options.host = "localhost";
  const auto server = make_tcp_store_server(options);
  options.port = server->port();
  connect_tcp_store(options)->set("key", "value");
  options.host = "no.such.host.invalid";
  EXPECT_THAT([&] { connect_tcp_store(options); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("no.such.host.invalid")));
}

TEST(TcpStore, ClientTimesOutWithoutAServer) {
  const int port = make_tcp_store_server(options_for(0))->port();
  TcpStoreOptions options = options_for(port);
  options.timeout_s = 0.05;
  EXPECT_THROW(connect_tcp_store(options), CommTimeout);
  const SilentListener stranger;
  options.port = stranger.port();
  EXPECT_THROW(connect_tcp_store(options), CommTimeout);
}

TEST(TcpStore, ClientReportsAServerThatWentAway) {
  auto server = make_tcp_store_server(options_for(0));
  const auto store = connect_tcp_store(options_for(server->port()));
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server.reset();
  });
  EXPECT_THROW(store->get("never", 30), CommError);
  closer.join();
  EXPECT_THROW(store->set("key", "value"), CommError);
}

}  // namespace
}  // namespace ddpbench::comm
