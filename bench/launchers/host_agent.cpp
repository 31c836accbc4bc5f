// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/agent_messages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "bench/host/build_info.h"
#include "bench/host/environment_capture.h"
#include "bench/host/host_devices.h"
#include "bench/host/host_limits.h"
#include "bench/host/host_network.h"
#include "bench/host/terminal.h"
#include "bench/launchers/launched_run.h"
#include "bench/options/option_table.h"
#include "bench/plan/data_places.h"
#include "bench/plan/training_job.h"
#include "bench/rank/rank_main.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/shm/peers/peer_memory.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/piped_process.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

constexpr double kHeartbeatEvery_s = 1;
constexpr double kRecordsEvery_s = 0.25;  // while ranks run
constexpr const char* kOwnProgram = "/proc/self/exe";
// Ports tried from MASTER_PORT on: other jobs may have the first.
constexpr int kPortsTried = 16;

// Standard input as lines. The copy of the descriptor is not handed on to ranks.
launch::LineReader own_input() {
  FileDescriptor input(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!input || ::fcntl(input.get(), F_SETFL, O_NONBLOCK) != 0) {
    throw_system_error<InternalError>("cannot read standard input", errno);
  }
  return launch::LineReader(std::move(input));
}

std::string hash_words(const void* data, std::size_t bytes) {
  return fmt::format("{:016x}", hash_bytes(data, bytes));
}

// Calls `make`; where that fails, `reply` says why.
template <typename Reply, typename Make>
Reply replied(Make&& make) {
  try {
    return make();
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    Reply reply;
    reply.error = failure.message;
    reply.exit_code = failure.exit_code;
    return reply;
  }
}

// A process of the run, which has one rank.
struct AgentRank {
  int number = 0;
  std::unique_ptr<launch::PipedProcess> process;
  launch::RankMirror mirror;
};

class HostAgent {
 public:
  int run() {
    // What anything here prints must not get among the messages.
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    while (input_.fd() >= 0) {
      wait();
      input_.read();
      for (const std::string& line : input_.take()) {
        const std::optional<AgentOrder> order = read_order(line);
        if (order) std::visit([this](const auto& one) { obey(one); }, *order);
      }
      const bool due = steady_s() - said_s_ >= interval_s();
      for (AgentRank& rank : ranks_) hand_on(rank, due);
      std::erase_if(ranks_, [](const AgentRank& rank) { return rank.process == nullptr; });
      if (due) say_alive();
    }
    return 0;  // ranks that are left end with their objects
  }

 private:
  double interval_s() const { return ranks_.empty() ? kHeartbeatEvery_s : kRecordsEvery_s; }

  // A reader that is gone raises SIGPIPE, which ends this process, and so the ranks. Behind sshd
  // input and output are one socket, which does not block.
  void say_word(const AgentWord& word) {
    const std::string line = word_line(word);
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t written = ::write(output_.get(), rest.data(), rest.size());
      if (written > 0) {
        rest.remove_prefix(static_cast<std::size_t>(written));
      } else if (errno == EAGAIN) {
        pollfd ready{output_.get(), POLLOUT, 0};
        ::poll(&ready, 1, -1);
      } else if (errno != EINTR) {
        throw_system_error<CommError>("cannot answer the supervisor", errno);
      }
    }
  }

  void say_alive() {
    AgentHeartbeat heartbeat{.clock_s = steady_s(), .stopped = {}};
    for (const AgentRank& rank : ranks_) {
      if (rank.process->is_stopped()) heartbeat.stopped.push_back(rank.number);
    }
    say_word(heartbeat);
    said_s_ = steady_s();
  }

  void wait() {
    std::vector<pollfd> watched{{input_.fd(), POLLIN, 0}};
    for (const AgentRank& rank : ranks_) rank.process->watch(watched);
    const double left_s = said_s_ + interval_s() - steady_s();
    ::poll(watched.data(), watched.size(), std::max(0, 1 + static_cast<int>(1e3 * left_s)));
  }

  void obey(const AgentGreeting& greeting) {
    HostView host;
    if (::chdir(greeting.directory.c_str()) != 0) {
      host.note = fmt::format("{}: {}; its ranks work in their home directory", greeting.directory,
                              std::strerror(errno));
      const char* const home = std::getenv("HOME");
      if (home != nullptr && ::chdir(home) != 0) host.note += ", which is not there";
    }
    devices_ = find_devices(greeting.device);
    host.version = version_text();
    host.name = host_name();
    host.mark = comm::host_mark();
    host.gpus = {0, devices_.cuda};
    host.environment = environment_of_process(option_variables());
    add_gpus(host.environment, devices_);
    say_word(host);
  }

  void obey(const AgentInputs& order) {
    say_word(replied<HostInputs>([&] {
      Options options = launched_run_options(order.settings);
      model_path_ = find_model(options.model);
      const nn::ModelSpec model = nn::load_model_file(model_path_, options.crop);
      resolve_dataset(options, model);
      const auto source = open_data(options, model);
      check_checkpoint(options, model);
      if (FileDescriptor images = source->open_decoded([](auto&&...) {})) {
        dataset_ = SharedMemory::adopt(images.release());
      } else {
        dataset_ = SharedMemory::create("ddpbench-dataset", source->info().decoded_bytes(), true);
        source->decode(dataset_.view().as<std::byte>());
        dataset_.seal();
      }
      HostInputs inputs{.dataset = describe_data(*source, options), .contents = {}, .error = {}};
      const BufferView decoded = dataset_.view();
      const std::size_t content = data::content_bytes(inputs.dataset, decoded.bytes);
      inputs.contents = {{"the data set", hash_words(decoded.data, content)},
                         {"the network", network_of(model, model_path_).hash}};
      for (const auto& [what, path] : {std::pair("the weights", options.load_model),
                                       std::pair("the checkpoint", options.resume_training)}) {
        if (path.empty()) continue;
        const std::string text = read_file(path, {.most_bytes = std::size_t{1} << 40});
        inputs.contents[what] = hash_words(text.data(), text.size());
      }
      return inputs;
    }));
  }

  void obey(const AgentStore& order) {
    say_word(replied<HostStore>([&] {
      const std::string address =
          order.interface.empty() ? order.host : find_interface(order.interface).address;
      store_.reset();
      store_ = comm::make_tcp_store_server(
          {.host = address, .port = order.port, .tries = kPortsTried, .secret = order.secret});
      return HostStore{.address = address, .port = store_->port(), .error = {}};
    }));
  }

  void obey(const AgentRun& order) {
    try {
      begin(order);
    } catch (const std::exception& error) {
      ranks_.clear();
      for (const AgentRun::Process& process : order.processes) refuse(process.number, error);
    }
  }

  void refuse(int process, const std::exception& error) {
    const Failure failure = failure_of(error);
    say_word(RankRefusal{process, failure.message, failure.exit_code});
  }

  void begin(const AgentRun& order) {
    ranks_.clear();
    kills_before_ = read_memory_kills();
    channels_.emplace(launch::RankChannels::create(order.layout));
    const TrainingJob job = own_job(order);
    const std::string text = nlohmann::json{
        {"kind", kTrainingKind},
        {"channel_fd", channels_->fd()},
        {"ranks_per_process", 1},
        {"description",
         to_json(job)}}.dump();
    job_ = SharedMemory::create("ddpbench-run", text.size() + 1);
    std::memcpy(job_.view().data, text.data(), text.size());
    for (const AgentRun::Process& process : order.processes) {
      start(order, process, job.options.threads_per_device);
    }
  }

  // The job with what is this host's own.
  TrainingJob own_job(const AgentRun& order) {
    TrainingJob job = training_job_from_json(nlohmann::json::parse(order.job));
    job.network.path = model_path_;
    job.dataset_fd = dataset_.fd();
    if (!order.reference.empty() && job.is_reference()) {
      reference_.reset();
      reference_ = ReferenceWeights::create(order.extent);
    }
    if (!order.reference.empty()) {
      ensure(reference_.has_value(), "the reference was computed by an agent that is gone");
      job.reference_fd = reference_->fd();
    }
    place(order, job);
    return job;
  }

  // The cores and GPUs of the devices here, which the supervisor does not know.
  void place(const AgentRun& order, TrainingJob& job) const {
    const auto cores =
        place_cpu_devices(devices_.cpu, order.machine_devices, job.options.threads_per_device)
            .device_cores;
    for (const AgentRun::Process& process : order.processes) {
      for (std::size_t i = 0; i < process.devices.size(); ++i) {
        const auto device = static_cast<std::size_t>(process.devices[i]);
        const auto place = static_cast<std::size_t>(process.places.at(i));
        if (!job.cores.at(device).empty()) job.cores[device] = cores.at(place);
        if (!job.is_on_gpu(process.devices[i])) continue;
        const std::vector<CudaDeviceInfo>& gpus = devices_.cuda.devices;
        job.gpus[device] = gpus.at(place % gpus.size()).ordinal;
      }
    }
  }

  void start(const AgentRun& order, const AgentRun::Process& process, int threads) {
    auto variables = order.variables;
    variables.insert(process.variables.begin(), process.variables.end());
    variables[kJobFdVariable] = std::to_string(job_.fd());
    launch::PipedProcess::Spec spec;
    spec.executable = kOwnProgram;
    spec.arguments = {"ddpbench"};
    spec.environment = launch::child_variables(threads, variables, variables_to_drop());
    spec.inherited_fds = {job_.fd(), channels_->fd(), dataset_.fd()};
    if (reference_) spec.inherited_fds.push_back(reference_->fd());
    try {
      ranks_.push_back({process.number, std::make_unique<launch::PipedProcess>(spec),
                        launch::RankMirror(channels_->area(process.number))});
    } catch (const std::exception& error) {
      refuse(process.number, error);
    }
  }

  void obey(const AgentSignal& signal) {
    for (const AgentRank& rank : ranks_) {
      if (rank.number == signal.process) rank.process->signal(signal.number);
    }
  }

  void obey(const AgentLook&) { say_word(HostLoad{take_machine_snapshot()}); }

  // What the rank has written comes before word of its end.
  void hand_on(AgentRank& rank, bool due) {
    const bool ended = rank.process->look();
    std::vector<std::string> lines = rank.process->take_output();
    std::ranges::move(rank.process->take_errors(), std::back_inserter(lines));
    for (std::string& line : lines) say_word(RankLine{rank.number, std::move(line)});
    if (!ended && !due) return;
    for (std::string& bytes : rank.mirror.take()) say_word(RankNews{rank.number, std::move(bytes)});
    if (!ended) return;
    RankEnd end{.rank = rank.number, .exit = rank.process->how_ended(), .note = {}};
    if (end.exit.signal == SIGKILL)
      end.note = memory_kill_words(kills_before_, read_memory_kills());
    say_word(end);
    rank.process.reset();
  }

  FileDescriptor output_{::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
  launch::LineReader input_ = own_input();
  HostDevices devices_;
  std::string model_path_;
  SharedMemory dataset_;
  std::optional<ReferenceWeights> reference_;
  std::unique_ptr<comm::TcpStoreServer> store_;
  // The rest belongs to the last run.
  MemoryKills kills_before_;
  std::optional<launch::RankChannels> channels_;
  SharedMemory job_;
  std::vector<AgentRank> ranks_;
  double said_s_ = steady_s();
};

}  // namespace

int host_agent_main() {
  try {
    return HostAgent().run();
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    say_error("ddpbench: {}\n", failure.message);
    return failure.exit_code;
  }
}

}  // namespace ddpbench::bench
