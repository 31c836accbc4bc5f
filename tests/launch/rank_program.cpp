// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank for the supervisor's tests, which does what its arguments say.
//
//   rank_program CHANNELS_FD [RANK:ACTION[:VALUE]]...
//     is a rank; without an action for it, it works five steps and finishes. With
//     RANKS_PER_PROCESS=N it is N ranks, of which the first acts, RANK counts processes, and the
//     others finish
//   rank_program supervise
//     supervises two ranks that work for ever, and prints their process ids
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::launch {
namespace {

constexpr std::uint64_t kSteps = 5;

int to_int(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void pause_ms(int milliseconds) { ::poll(nullptr, 0, milliseconds); }

[[noreturn]] void hang() {
  for (;;) pause_ms(1000);
}

void work_step(RankWriter& writer, std::uint64_t step) {
  writer.begin_step(0, step);
  writer.phase(static_cast<std::uint32_t>(Phase::forward));
  writer.phase(static_cast<std::uint32_t>(Phase::backward));
}

void finish(RankWriter& writer) {
  for (std::uint64_t step = 2; step <= kSteps; ++step) work_step(writer, step);
  writer.state(RankState::finished);
}

[[noreturn]] void work_for_ever(RankWriter& writer) {
  for (;;) {
    writer.collective();
    pause_ms(5);
  }
}

// Meets the other ranks through the store, as communicators do.
void meet(const RankEnvironment& place) {
  comm::TcpStoreOptions options;
  options.port = place.master_port;
  options.secret = place.secret;
  const auto store = comm::connect_tcp_store(options);
  comm::store_barrier(*store, "met", place.world_size, 30);
}

std::string describe(const RankEnvironment& place) {
  std::string text =
      fmt::format("{}/{} {} {}\n", place.rank, place.world_size, place.local_rank, place.launcher);
  for (const char* const name : {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "EXTRA"}) {
    const char* const value = std::getenv(name);
    text += fmt::format("{}={}\n", name, value ? value : "");
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor that lists the directory
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    text += fmt::format("fd {} {}\n", entry.path().filename().string(), target.string());
  }
  return text;
}

class Rank {
 public:
  Rank(RankChannels& channels, RankEnvironment place, int number)
      : channels_(channels), writer_(channels.writer(number)), place_(std::move(place)) {}

  // The action happens in the backward of step 1. Before that all ranks are alike.
  int act(std::string_view action, std::string_view value) {
    writer_.state(RankState::training);
    work_step(writer_, 1);
    if (action == "exit") return to_int(value);
    if (action == "leave") return 0;
    if (action == "kill") ::raise(to_int(value));
    if (action == "stop") ::raise(SIGSTOP), hang();
    if (action == "hang") hang();
    if (action == "deaf") ::signal(SIGTERM, SIG_IGN), writer_.bucket_done(), hang();
    if (action == "work") work_for_ever(writer_);
    if (action == "fail") return wait_for_peers(), fail(std::string(value), 1);
    if (action == "late") return wait_for_error(), fail(std::string(value), 1);
    if (action == "deadline") return give_up_on_peers();
    if (action == "meet") meet(place_);
    if (action == "describe") writer_.result(describe(place_));
    if (action == "print") std::printf("rank %d says %s\n", place_.rank, value.data());
    if (action == "pid") writer_.result(std::to_string(::getpid())), work_for_ever(writer_);
    finish(writer_);
    return 0;
  }

 private:
  int fail(const std::string& kind, int exit_code) {
    writer_.error({kind, "planted failure", "all_reduce", exit_code});
    return exit_code;
  }

  void wait_for_peers() const {
    for (int rank = 0; rank < place_.world_size; ++rank) {
      while (channels_.status(rank).phase_marks < 2) pause_ms(1);
    }
  }

  void wait_for_error() const {
    for (int rank = 0; rank < place_.world_size; ++rank) {
      while (rank != place_.rank && !channels_.status(rank).error) pause_ms(1);
    }
  }

  // Gets one phase further than a rank that hangs in the backward of step 1, and gives up on it.
  int give_up_on_peers() {
    wait_for_peers();
    writer_.phase(static_cast<std::uint32_t>(Phase::comm_wait));
    pause_ms(50);
    return fail("timeout", 4);
  }

  RankChannels& channels_;
  RankWriter writer_;
  RankEnvironment place_;
};

int run_rank(const std::vector<std::string>& arguments) {
  RankChannels channels = RankChannels::adopt(to_int(arguments.at(0)));
  const auto place = read_rank_environment(environment_variables());
  ensure(place.has_value(), "started without a launcher");
  const char* const shared = std::getenv("RANKS_PER_PROCESS");
  const int each = shared == nullptr ? 1 : to_int(shared);
  for (int i = 1; i < each; ++i) Rank(channels, *place, place->rank * each + i).act("", "");
  Rank rank(channels, *place, place->rank * each);
  const std::string prefix = fmt::format("{}:", place->rank);
  for (const std::string_view argument : arguments) {
    if (!argument.starts_with(prefix)) continue;
    const std::string_view action = argument.substr(prefix.size());
    const std::size_t colon = action.find(':');
    return rank.act(action.substr(0, colon),
                    colon == std::string_view::npos ? "" : action.substr(colon + 1));
  }
  return rank.act("", "");
}

int run_supervisor() {
  RankChannels channels = RankChannels::create({.ranks = 2});
  LaunchSpec spec;
  spec.ranks = 2;
  spec.arguments = {std::to_string(channels.fd()), "0:pid", "1:pid"};
  spec.inherited_fds = {channels.fd()};
  SuperviseOptions options;
  bool printed = false;
  options.progress = [&](const RankChannels& all) {
    if (printed || all.result(0).empty() || all.result(1).empty()) return;
    printed = true;
    std::printf("%s %s\n", all.result(0).c_str(), all.result(1).c_str());
    std::fflush(stdout);
  };
  run_ranks(spec, channels, options);
  return 0;
}

}  // namespace
}  // namespace ddpbench::launch

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "supervise") return ddpbench::launch::run_supervisor();
  return ddpbench::launch::run_rank(arguments);
}
