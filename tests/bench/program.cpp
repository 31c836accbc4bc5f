// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <thread>
#include <tuple>

#include "datasets/synthetic.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::test {
namespace fs = std::filesystem;
namespace {

constexpr auto kLimit = std::chrono::seconds(60);

// Variables that change how sanitizers and libraries behave must reach the program.
constexpr const char* kPassedOn[] = {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS",
                                     "TSAN_OPTIONS"};

void redirect(int target, const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(fd, target);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// The header of an IDX file of bytes.
std::string idx_header(const std::vector<std::uint32_t>& shape) {
  std::string header{0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(size >> shift);
  }
  return header;
}

}  // namespace

void write_digits(const Program& program, const std::string& folder, int train, int test) {
  for (const auto& [name, count, seed] : {std::tuple{"train", train, 1}, {"t10k", test, 2}}) {
    const auto samples = static_cast<std::uint32_t>(count);
    std::string images = idx_header({samples, data::kDigitSide, data::kDigitSide});
    std::string labels = idx_header({samples});
    std::array<std::uint8_t, data::kDigitPixels> image;
    for (std::uint32_t i = 0; i < samples; ++i) {
      labels += static_cast<char>(data::draw_digit(static_cast<std::uint64_t>(seed), i, image));
      images.append(image.begin(), image.end());
    }
    const std::string start = folder + "/" + name;
    program.write(start + "-images-idx3-ubyte", images);
    program.write(start + "-labels-idx1-ubyte", labels);
  }
}

Program::Program(Digits digits) {
  std::string pattern = fs::temp_directory_path() / "ddpbench-program-XXXXXX";
  directory_ = fs::canonical(::mkdtemp(pattern.data()));
  if (digits == Digits::few) write_digits(*this, ".cache/ddpbench/mnist", 2048, 512);
}

Program::~Program() {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

int Program::start(const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& own, const std::string& tag) const {
  std::vector<std::string> argv{executable.empty() ? DDPBENCH_BINARY : executable};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::map<std::string, std::string> variables{{"HOME", directory_}};
  for (const char* name : kPassedOn) {
    if (const char* value = ::getenv(name)) variables[name] = value;
  }
  for (const auto* layer : {&environment, &own}) {
    for (const auto& [name, value] : *layer) variables[name] = value;
  }
  std::vector<std::string> envp;
  for (const auto& [name, value] : variables) envp.push_back(name + "=" + value);
  const auto argv_pointers = pointers(argv);
  const auto envp_pointers = pointers(envp);
  const std::string out = path("stdout" + tag);
  const std::string err = path("stderr" + tag);
  const int pid = ::fork();
  if (pid == 0) {
    redirect(STDOUT_FILENO, stdout_path.empty() ? out : stdout_path);
    redirect(STDERR_FILENO, err);
    for (const int descriptor : closed) ::close(descriptor);
    if (prepare) prepare();
    if (::chdir(directory_.c_str()) == 0) {
      ::execve(argv_pointers[0], argv_pointers.data(), envp_pointers.data());
    }
    ::_exit(127);
  }
  return pid;
}

ProgramResult Program::finish(int pid, const std::string& tag) const {
  int status = 0;
  ::waitpid(pid, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read("stdout" + tag), read("stderr" + tag)};
}

ProgramResult Program::run(const std::vector<std::string>& arguments) {
  return run(arguments, [](int) {});
}

ProgramResult Program::run(const std::vector<std::string>& arguments,
                           const std::function<void(int)>& act) {
  const int pid = start(arguments, {}, "");
  act(pid);
  return finish(pid, "");
}

std::vector<ProgramResult> Program::run_together(
    const std::vector<std::string>& arguments,
    const std::vector<std::map<std::string, std::string>>& environments) {
  std::vector<int> pids;
  for (std::size_t i = 0; i < environments.size(); ++i) {
    pids.push_back(start(arguments, environments[i], "." + std::to_string(i)));
  }
  std::vector<ProgramResult> results;
  for (std::size_t i = 0; i < pids.size(); ++i) {
    results.push_back(finish(pids[i], "." + std::to_string(i)));
  }
  return results;
}

void Program::write(const std::string& name, const std::string& text) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
}

std::string Program::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json Program::report(const std::string& name) const {
  const std::string text = read(name);
  EXPECT_FALSE(text.empty()) << name << " was not written";
  if (text.empty()) return {};
  auto& [known, json] = reports_[name];
  if (text != known) {
    json = nlohmann::json::parse(text);
    for (const std::string& error : schema_errors(json, DDPBENCH_REPORT_SCHEMA)) {
      ADD_FAILURE() << error;
    }
    known = text;
  }
  return json;
}

std::vector<int> Program::processes() const {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (fs::read_symlink(entry.path() / "cwd", ignored) == directory_) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

bool Program::wait_until(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::string cifar_records(int count, int seed) {
  std::string bytes;
  unsigned state = static_cast<unsigned>(seed);
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i % 10);
    for (int p = 0; p < 3072; ++p) {
      state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
      bytes += static_cast<char>(state >> 24);
    }
  }
  return bytes;
}

void write_cifar(const Program& program, int train) {
  std::filesystem::create_directories(program.directory() / "data/cifar10");
  for (int file = 1; file <= train; ++file) {
    program.write("data/cifar10/data_batch_" + std::to_string(file) + ".bin",
                  cifar_records(40, file));
  }
  program.write("data/cifar10/test_batch.bin", cifar_records(20, 7));
}

std::string small_config(const SmallConfig& config) {
  const nlohmann::json dataset = {
      {"name", "mnist"}, {"on_missing", "synthesize"}, {"mean", 0.1307}, {"std", 0.3081}};
  return nlohmann::json{{"model", "lenet5"},
                        {"batch_size", 8},
                        {"epochs", config.epochs},
                        {"steps", config.steps},
                        {"warmup_steps", config.warmup_steps},
                        {"warmup_max_steps", config.warmup_steps},
                        {"verify_steps", config.verify_steps},
                        {"timeout", config.timeout_s},
                        {"dataset", dataset}}
      .dump();
}

std::vector<std::string> small_run(const std::string& strategy,
                                   const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--strategy=" + strategy, "--config=lenet.json",
                                     "--json=report.json"};
  const bool own_devices = std::any_of(more.begin(), more.end(), [](const auto& argument) {
    return argument.starts_with("--gpus=");
  });
  if (strategy != "single" && !own_devices) arguments.emplace_back("--gpus=2");
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace ddpbench::test
