// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The TCP store among strangers: wrong secrets, garbage, occupied ports, dead servers.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
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
  const std::string taken = frame("o" + said.substr(4 + kNonceBytes) + std::string(64, 'i'));
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
  options.owner = "process 12 on a host";
  const auto first = make_tcp_store_server(options);
  options.port = first->port();
  options.tries = 16;
  std::string refused;
  try {
    make_tcp_store_server(options);
  } catch (const ConfigError& error) {
    refused = error.what();
  }
  EXPECT_THAT(refused, HasSubstr("process 12 on a host"));
  options.secret = "another";
  EXPECT_GT(make_tcp_store_server(options)->port(), first->port());
}

TEST(TcpStore, DoesNotTakeALaterServerOnTheSamePortForItsOwn) {
  auto server = make_tcp_store_server(options_for(0));
  const TcpStoreOptions options = options_for(server->port());
  const auto store = connect_tcp_store(options);
  store->set("key", "of the first");
  server.reset();
  server = make_tcp_store_server(options);
  // The old connection has ended, and a new one is not taken.
  for (int i = 0; i < 3; ++i) EXPECT_THROW(store->set("key", "stray"), CommError) << i;
  EXPECT_EQ(connect_tcp_store(options)->add("key", 0), 0) << "nothing was set";
}

TEST(TcpStore, EndsAWaitWhenTheCallersCheckThrows) {
  const auto server = make_tcp_store_server(options_for(0));
  TcpStoreOptions options = options_for(server->port());
  bool ended = false;
  options.check = [&ended] {
    if (ended) throw InternalError("a peer has ended");
  };
  const auto store = connect_tcp_store(options);
  store->set("here", "value");
  ended = true;
  EXPECT_EQ(store->get("here", 30), "value");
  EXPECT_THROW(store->get("never set", 1e6), InternalError);
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

// A process that opens so many connections, sends garbage on some, and keeps them all until its
// end.
class Strangers {
 public:
  Strangers(int port, int connections) {
    int told[2];
    EXPECT_EQ(::pipe(told), 0);
    told_ = FileDescriptor(told[0]);
    pid_ = ::fork();
    if (pid_ == 0) connect_all(port, connections, told[1]);
    ::close(told[1]);
  }
  ~Strangers() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  // Waits until they are connected.
  void await_all() {
    char one = 0;
    EXPECT_EQ(::read(told_.get(), &one, 1), 1);
  }

 private:
  [[noreturn]] static void connect_all(int port, int connections, int told) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(connections) + 64);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const sockaddr_in address = loopback(port);
    for (int i = 0; i < connections; ++i) {
      const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (socket < 0) ::_exit(1);
      const auto* const where = reinterpret_cast<const sockaddr*>(&address);
      if (::connect(socket, where, sizeof address) != 0) ::_exit(1);
      if (i % 3 == 1) ::send(socket, "\xff\xff", 2, MSG_NOSIGNAL);
    }
    if (::write(told, "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }

  FileDescriptor told_;
  int pid_ = -1;
};

// This process may open one more file and no second one.
class AlmostExhausted {
 public:
  AlmostExhausted() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{400, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    do {
      files_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (files_.back());
    files_.resize(files_.size() - 2);
  }
  ~AlmostExhausted() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<FileDescriptor> files_;
};

std::ptrdiff_t files_that_are_open() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

TEST(TcpStore, LetsAClientInAmongStrangersWithoutEndAndKeepsFewOfThem) {
  const auto server = make_tcp_store_server(options_for(0));
  const std::ptrdiff_t before = files_that_are_open();
  Strangers strangers(server->port(), 2000);
  const auto early = connect_tcp_store(options_for(server->port()));
  early->set("key", "value");
  strangers.await_all();
  const auto late = connect_tcp_store(options_for(server->port()));
  EXPECT_EQ(late->get("key", 30), "value");
  EXPECT_EQ(early->add("count", 1), 1) << "who has the secret stays";
  EXPECT_LE(files_that_are_open() - before, static_cast<std::ptrdiff_t>(kMaxStrangers) + 6);
}

TEST(TcpStore, DropsStrangersWhereNoMoreFilesMayBeOpen) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer looks at objects through a pipe, and gets none here";
#endif
  const auto server = make_tcp_store_server(options_for(0));
  const auto store = connect_tcp_store(options_for(server->port()));
  Strangers strangers(server->port(), 40);
  strangers.await_all();
  store->set("here", "1");  // after the strangers were let in
  std::thread waiting([&] { EXPECT_EQ(store->get("key", 30), "value"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const AlmostExhausted exhausted;
  // The client's second connection takes the last descriptor, and its other end needs one, too.
  store->set("key", "value");
  waiting.join();
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
