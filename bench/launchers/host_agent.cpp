// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/agent_messages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "bench/host/environment_capture.h"
#include "bench/host/host_devices.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/launchers/meeting.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "bench/plan/data_places.h"
#include "bench/plan/training_job.h"
#include "bench/rank/rank_main.h"
#include "bench/run/report_output.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/shm/peers/peer_memory.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/grace_times.h"
#include "parallel/launch/open_files.h"
#include "parallel/launch/piped_process.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

constexpr double kRecordsEvery_s = 0.25;    // while ranks run
constexpr std::size_t kInheritedFiles = 7;  // by a rank: standard ones, job, channels, data
// Ports tried from MASTER_PORT on: other jobs may have the first.
constexpr int kPortsTried = 16;

// A copy of a stream's descriptor, which is not handed on to ranks.
FileDescriptor copy_of(int stream) {
  FileDescriptor copy(::fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!copy) throw_system_error<InternalError>("cannot use a standard stream", errno);
  return copy;
}

// What the supervisor must know of the process, where a launcher started it.
struct LaunchedPlace {
  int rank = 0, world_size = 1;
  std::string arguments = {};
  std::string interface = {};  // of this host (--interface); empty: as the supervisor says
};

// The variables that a rank must not have from the environment of its agent: they would be taken
// for its place, or for options.
std::vector<std::string> variables_to_drop() {
  std::vector<std::string> names = option_variables();
  for (const char* const name :
       {"DDPBENCH_LAUNCHER", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE",
        kSupervisorVariable, kSupervisorSecretVariable}) {
    names.emplace_back(name);
  }
  return names;
}

std::string hash_words(const void* data, std::size_t bytes) {
  return fmt::format("{:016x}", hash_bytes(data, bytes));
}

// A process of the run, which has one rank.
struct AgentRank {
  int number = 0;
  std::unique_ptr<launch::PipedProcess> process;
  launch::RankMirror mirror;
};

class HostAgent {
 public:
  // `place`: of one that a launcher started, which leaves it to the supervisor what signals mean.
  // `secret`: of the job; empty: the supervisor tells it.
  HostAgent(FileDescriptor input, FileDescriptor output, std::optional<LaunchedPlace> place,
            std::string secret)
      : place_(std::move(place)),
        output_(std::move(output)),
        input_(std::move(input)),
        secret_(std::move(secret)) {
    if (place_) catch_interrupts();
  }

  // Returns the exit code.
  int run() {
    // What anything here prints must not get among the messages.
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    while (input_.fd() >= 0 && !end_ && !is_cut_off()) {
      if (place_ && interrupt_signal() != told_) say_word(AgentTold{told_ = interrupt_signal()});
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
    ranks_.clear();  // those that are left end with their objects
    if (end_ && !end_->message.empty()) say_error("ddpbench: {}\n", end_->message);
    if (end_ || !place_) return end_ ? end_->exit_code : 0;
    say_error("ddpbench: rank {}: the process of rank 0 has ended, or its host cannot be reached\n",
              place_->rank);
    return CommError("").exit_code();
  }

 private:
  double interval_s() const { return ranks_.empty() ? launch::kHeartbeatEvery_s : kRecordsEvery_s; }

  // A host that is gone says nothing, and TCP would repeat for a quarter of an hour what it did not
  // take. A supervisor that is stopped still takes it, by its kernel.
  bool is_cut_off() const {
    constexpr auto kLongestMs = static_cast<std::uint32_t>(1e3 * launch::kSilence_s);
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(output_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > kLongestMs;
  }

  // Without a reader the input has ended, too, or SIGPIPE ends this process, and so the ranks.
  // Behind sshd input and output are one socket, which does not block.
  void say_word(const AgentWord& word) {
    const std::string line = word_line(word);
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t written = ::write(output_.get(), rest.data(), rest.size());
      if (written > 0) {
        rest.remove_prefix(static_cast<std::size_t>(written));
      } else if (errno == EAGAIN) {
        pollfd ready{output_.get(), POLLOUT, 0};
        constexpr int kLookMs = static_cast<int>(1e3 * launch::kHeartbeatEvery_s);
        if (::poll(&ready, 1, kLookMs) == 0 && is_cut_off()) return;
      } else if (errno == EPIPE || errno == ECONNRESET) {
        return;
      } else if (errno != EINTR) {
        throw_system_error<CommError>("cannot answer the supervisor", errno);
      }
    }
  }

  void refuse(int process, const std::exception& error) {
    const Failure failure = failure_of(error);
    say_word(AgentRefusal{process, failure.message, failure.exit_code});
  }

  // Says what `make` returns.
  template <typename Make>
  void answer(Make&& make) {
    try {
      say_word(make());
    } catch (const std::exception& error) {
      refuse(-1, error);
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
    say_word(AgentHello{version_text()});
    HostView host;
    if (!greeting.directory.empty() && ::chdir(greeting.directory.c_str()) != 0) {
      host.note = fmt::format("{}: {}; its ranks work in another directory", greeting.directory,
                              std::strerror(errno));
    }
    if (secret_.empty()) secret_ = greeting.secret;
    devices_ = find_devices(greeting.device);
    host.name = host_name();
    host.mark = comm::host_mark();
    host.cores = devices_.cpu.cores;
    host.gpus = devices_.cuda;
    if (place_) {
      host.rank = place_->rank;
      host.world_size = place_->world_size;
      host.arguments = place_->arguments;
    }
    host.environment = environment_of_process(option_variables());
    add_gpus(host.environment, devices_);
    say_word(host);
  }

  void obey(const AgentInputs& order) {
    answer([&] {
      Options options = options_from_json(parse_json(order.settings, "the supervisor's settings"));
      if (order.writes) check_rank_outputs(options);
      model_path_ = find_model(options.model);
      const nn::ModelSpec model = nn::load_model_file(model_path_, options.crop);
      resolve_dataset(options, model);
      const auto source = open_data(options, model);
      check_checkpoint(options, model);
      std::string decoded;  // an image folder's is a file
      if (!order.decoded.empty()) {
        dataset_ = SharedMemory::open(order.decoded, SharedMemory::Use::share_sealed);
      } else if (FileDescriptor images =
                     source->open_decoded([this](auto&&...) { look_while_decoding(); })) {
        dataset_ = SharedMemory::adopt(images.release());
      } else {
        dataset_ = decode_samples(*source);
        decoded = dataset_.handle();
      }
      const data::DatasetInfo dataset = describe_data(*source, options);
      const BufferView bytes = dataset_.view();
      const std::size_t content = data::content_bytes(dataset, bytes.bytes);
      HostInputs inputs{.dataset = dataset_json(dataset).dump(),
                        .contents = {{"the data set", hash_words(bytes.data, content)},
                                     {"the network", network_of(model, model_path_).hash}},
                        .decoded = std::move(decoded)};
      for (const auto& [what, path] : {std::pair("the weights", options.load_model),
                                       std::pair("the checkpoint", options.resume_training)}) {
        if (path.empty()) continue;
        const std::string text = read_file(path, {.most_bytes = std::size_t{1} << 40});
        inputs.contents[what] = hash_words(text.data(), text.size());
      }
      return inputs;
    });
  }

  // Who waits for the images may be gone.
  void look_while_decoding() {
    pollfd input{input_.fd(), POLLRDHUP, 0};
    ::poll(&input, 1, 0);
    if (interrupt_requested() || (input.revents & (POLLRDHUP | POLLHUP)) != 0) throw Interrupted();
    if (steady_s() - said_s_ >= launch::kHeartbeatEvery_s) say_alive();
  }

  void obey(const AgentStore& order) {
    answer([&] {
      const std::string address =
          order.interface.empty() ? order.host : find_interface(order.interface).address;
      store_.reset();
      store_ = comm::make_tcp_store_server({.host = address,
                                            .port = order.port,
                                            .tries = kPortsTried,
                                            .secret = comm::derived_secret(secret_, order.nonce)});
      return HostStore{address, store_->port()};
    });
  }

  void obey(const AgentRun& order) {
    try {
      begin(order);
    } catch (const std::exception& error) {
      ranks_.clear();
      for (const AgentRun::Process& process : order.processes) refuse(process.number, error);
    }
  }

  void begin(const AgentRun& order) {
    ranks_.clear();
    kills_before_ = read_memory_kills();
    launch::allow_open_files(static_cast<std::size_t>(order.layout.ranks), 1, kInheritedFiles);
    channels_.emplace(launch::RankChannels::create(order.layout));
    const nlohmann::json job = own_job(order);
    const std::string text = nlohmann::json{
        {"kind", order.kind},
        {"channel_fd", channels_->fd()},
        {"ranks_per_process", 1},
        {"description", job}}.dump();
    job_ = SharedMemory::create("ddpbench-run", text.size() + 1);
    std::memcpy(job_.view().data, text.data(), text.size());
    for (const AgentRun::Process& process : order.processes) {
      start(order, process, plan_of(order, job).at("threads_per_device"));
    }
  }

  static const nlohmann::json& plan_of(const AgentRun& order, const nlohmann::json& job) {
    return job.at(nlohmann::json::json_pointer(order.plan));
  }

  // The job with what is this host's own.
  nlohmann::json own_job(const AgentRun& order) {
    nlohmann::json job = nlohmann::json::parse(order.job);
    const bool has_interface = place_ && !place_->interface.empty();
    if (has_interface) job["interface"] = place_->interface;
    if (order.kind == kTrainingKind) {
      TrainingJob training = training_job_from_json(job);
      if (has_interface) training.options.interface = place_->interface;
      training.network.path = model_path_;
      training.dataset_fd = dataset_.fd();
      training.reference_fd = reference_for(order, training.is_reference());
      job = to_json(training);
    }
    place(order, job.at(nlohmann::json::json_pointer(order.plan)));
    return job;
  }

  int reference_for(const AgentRun& order, bool computes) {
    if (order.reference.empty()) return -1;
    if (computes) {
      reference_.reset();
      reference_ = ReferenceWeights::create(order.extent);
      say_word(ReferencePlace{reference_->handle()});
    } else if (!order.reference_handle.empty()) {
      reference_ = ReferenceWeights::open(order.reference_handle);
    }
    ensure(reference_.has_value(), "the reference was computed by an agent that is gone");
    return reference_->fd();
  }

  // The cores and GPUs of the devices here, which the supervisor does not know.
  void place(const AgentRun& order, nlohmann::json& plan) const {
    CpuTopology topology = devices_.cpu;
    if (!order.cores.empty()) topology.cores = order.cores;
    const auto cores =
        place_cpu_devices(topology, order.devices_here, plan.at("threads_per_device")).device_cores;
    for (const AgentRun::Process& process : order.processes) {
      for (std::size_t i = 0; i < process.devices.size(); ++i) {
        const auto device = static_cast<std::size_t>(process.devices[i]);
        nlohmann::json& own = plan.at("cores").at(device);
        if (!own.empty()) own = cores.at(static_cast<std::size_t>(process.places.at(i)));
        if (plan.at("gpus").size() <= device) continue;
        const std::vector<CudaDeviceInfo>& gpus = devices_.cuda.devices;
        const auto gpu = static_cast<std::size_t>(process.gpu_places.at(i));
        plan["gpus"][device] = gpus.at(gpu % gpus.size()).ordinal;
      }
    }
  }

  void start(const AgentRun& order, const AgentRun::Process& process, int threads) {
    auto variables = order.variables;
    variables.insert(process.variables.begin(), process.variables.end());
    variables["DDPBENCH_JOB_SECRET"] = comm::derived_secret(secret_, order.nonce);
    variables[kJobFdVariable] = std::to_string(job_.fd());
    launch::PipedProcess::Spec spec;
    spec.executable = "/proc/self/exe";
    spec.arguments = {"ddpbench"};
    spec.environment = launch::child_variables(threads, variables, variables_to_drop());
    spec.inherited_fds = {job_.fd(), channels_->fd()};
    if (dataset_.fd() >= 0) spec.inherited_fds.push_back(dataset_.fd());
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

  void obey(const AgentEnd& end) { end_ = end; }

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

  const std::optional<LaunchedPlace> place_;
  const FileDescriptor output_;
  launch::LineReader input_;
  std::string secret_;
  std::optional<AgentEnd> end_;
  int told_ = 0;  // the signal of which the supervisor knows
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

int run_agent(FileDescriptor input, FileDescriptor output, std::optional<LaunchedPlace> place,
              std::string secret = "") {
  try {
    return HostAgent(std::move(input), std::move(output), std::move(place), std::move(secret))
        .run();
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    say_error("ddpbench: {}\n", failure.message);
    return failure.exit_code;
  }
}

int run_agent(Meeting meeting, LaunchedPlace place) {
  FileDescriptor output = copy_of(meeting.socket.get());
  return run_agent(std::move(meeting.socket), std::move(output), std::move(place),
                   std::move(meeting.secret));
}

}  // namespace

std::string common_arguments(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 3> kOfProcess = {"--local-rank", "--local_rank",
                                                          "--interface"};
  std::string line;
  bool skips = false;
  for (const std::string& word : std::span(arguments).subspan(1)) {
    const bool is_value = std::exchange(skips, false);
    const std::size_t equals = word.find('=');
    const bool is_own = std::ranges::count(kOfProcess, word.substr(0, equals)) > 0;
    skips = is_own && equals == std::string::npos;
    if (!is_value && !is_own) line += (line.empty() ? "" : " ") + shell_quoted(word);
  }
  return line;
}

int host_agent_main() {
  const auto supervisor = launch::environment_variable(kSupervisorVariable);
  if (!supervisor) {
    return run_agent(copy_of(STDIN_FILENO), copy_of(STDOUT_FILENO), std::nullopt);
  }
  if (supervisor->empty()) {  // of rank 0's process, which a launcher started
    return run_agent(copy_of(STDIN_FILENO), copy_of(STDOUT_FILENO), LaunchedPlace());
  }
  const auto environment = launch::read_rank_environment(launch::environment_variables());
  const launch::RankEnvironment place = environment.value_or(launch::RankEnvironment());
  const auto secret = launch::environment_variable(kSupervisorSecretVariable);
  ensure(secret.has_value(), "{} is set without {}", kSupervisorVariable,
         kSupervisorSecretVariable);
  return run_agent(meet_supervisor(*supervisor, *secret), {place.rank, place.world_size, ""});
}

int joined_agent_main(const launch::RankEnvironment& environment, const std::string& interface,
                      const std::vector<std::string>& arguments, double limit_s) {
  catch_interrupts();
  return run_agent(
      meet_supervisor(environment, interface, limit_s),
      {environment.rank, environment.world_size, common_arguments(arguments), interface});
}

}  // namespace ddpbench::bench
