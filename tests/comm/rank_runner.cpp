// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/rank_runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm::testing {

namespace {

template <typename F>
std::string error_of(F&& function) {
  try {
    function();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

Outcome run_threads(std::vector<std::unique_ptr<Communicator>> ranks,
                    const RankFunction& function) {
  Outcome outcome{std::vector<std::string>(ranks.size())};
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      // The thread's end of the communicator goes with it, as it does with a process.
      const auto own = std::move(ranks[rank]);
      outcome.errors[rank] = error_of([&] { function(*own); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

// Runs in the child: reports its error through `out` and ends without the parent's destructors.
[[noreturn]] void run_child(const TcpStoreOptions& store_options, int out,
                            const std::function<void(Store&)>& function) {
  const std::string error = error_of([&] {
    const auto store = connect_tcp_store(store_options);
    function(*store);
  });
  [[maybe_unused]] const auto written = ::write(out, error.data(), error.size());
  ::_exit(error.empty() ? 0 : 1);
}

std::string read_all(int fd) {
  std::string text;
  char buffer[512];
  ssize_t count = 0;
  while ((count = ::read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace

Outcome run_processes(int size, const std::function<void(Store&, int rank)>& function) {
  TcpStoreOptions store_options;
  store_options.secret = "test";
  int ports[2];
  EXPECT_EQ(::pipe(ports), 0);
  std::vector<pid_t> children;
  std::vector<int> outputs;
  // It forks before this process has threads: the store's server is one.
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      TcpStoreOptions connect = store_options;
      if (::read(ports[0], &connect.port, sizeof(int)) != sizeof(int)) ::_exit(2);
      run_child(connect, ends[1], [&](Store& store) { function(store, rank); });
    }
    ::close(ends[1]);
    children.push_back(child);
    outputs.push_back(ends[0]);
  }
  const auto server = make_tcp_store_server(store_options);
  const std::vector<int> port(static_cast<std::size_t>(size), server->port());
  EXPECT_GT(::write(ports[1], port.data(), port.size() * sizeof(int)), 0);
  Outcome outcome;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    std::string error = read_all(outputs[rank]);
    int status = 0;
    ::waitpid(children[rank], &status, 0);
    if (WIFSIGNALED(status)) error = fmt::format("signal {}", WTERMSIG(status));
    if (error.empty() && WEXITSTATUS(status) != 0) {
      error = fmt::format("exit {}", WEXITSTATUS(status));
    }
    outcome.errors.push_back(error);
    ::close(outputs[rank]);
  }
  ::close(ports[0]);
  ::close(ports[1]);
  return outcome;
}

void Outcome::expect_success() const {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    EXPECT_EQ(errors[rank], "") << "rank " << rank << " of " << errors.size();
  }
}

WorldOptions test_options() {
  WorldOptions options;
  options.timeout_s = 60;
  return options;
}

Outcome run_ranks(RankKind kind, int size, const RankFunction& function,
                  const WorldOptions& options) {
  if (kind == RankKind::threads) return run_threads(make_thread_shm(size, options), function);
  return run_processes(
      size, [&](Store& store, int rank) { function(*make_shm(store, rank, size, options)); });
}

void check(bool condition, const std::string& message) {
  if (!condition) throw std::runtime_error(message);
}

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void stop_this_process(double seconds) {
  const pid_t self = ::getpid();
  if (::fork() == 0) {
    sleep_s(seconds);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::kill(self, SIGSTOP);
}

void check_until_it_fails(Communicator& communicator) {
  const Deadline deadline = deadline_after(30);
  while (!has_passed(deadline)) {
    communicator.check();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw std::runtime_error("check() notices nothing");
}

Buffer mappable_buffer(std::size_t bytes) {
  if (bytes == 0) return {};
  const auto memory = std::make_shared<SharedMemory>(SharedMemory::create("comm-test", bytes));
  return {memory->view(), memory, memory->handle()};
}

}  // namespace ddpbench::comm::testing
