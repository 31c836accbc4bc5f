// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/data_places.h"

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/nearest_name.h"
#include "bench/host/build_info.h"
#include "datasets/catalog.h"
#include "datasets/fetch.h"

namespace ddpbench::bench {
namespace fs = std::filesystem;

std::string find_model(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  const InstallPaths paths = find_install_paths("/proc/self/exe", build_info().source_directory);
  std::vector<std::string> known;
  const fs::path directory = paths.models();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.path().stem() == name) return entry.path();
    known.push_back(entry.path().stem());
  }
  const auto nearest = nearest_name(name, known);
  throw ConfigError(fmt::format("model '{}' is neither a file nor a name in {}{}", name,
                                directory.string(),
                                nearest ? fmt::format("; did you mean '{}'?", *nearest) : ""));
}

std::vector<std::string> data_directories(const std::string& given) {
  if (!given.empty()) return {given};
  return {data::default_data_directory(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"))};
}

std::unique_ptr<data::DatasetSource> open_data(const Options& options) {
  if (!options.data_dir.empty() && !fs::is_directory(options.data_dir)) {
    throw ConfigError(fmt::format("--data-dir={}: there is no such directory", options.data_dir));
  }
  return data::open_dataset({.name = options.dataset,
                             .directories = data_directories(options.data_dir),
                             .synthesize_when_missing = options.on_missing == "synthesize",
                             .seed = options.seed});
}

std::string data_note(const data::DatasetInfo& dataset, const Options& options) {
  if (dataset.source == "files")
    return fmt::format("data: {} from {}", dataset.name, dataset.directory);
  const std::string directory = data_directories(options.data_dir).front();
  if (directory.empty()) {
    return fmt::format(
        "data: HOME is not set, so that there is no place for {}; synthetic digits are drawn in "
        "its place (seed {}); --data-dir or DDPBENCH_DATA_DIR name a place",
        dataset.name, options.seed);
  }
  return fmt::format(
      "data: {} is not in {}; synthetic digits are drawn in its place (seed {}); `ddpbench data "
      "fetch {}` gets the real ones",
      dataset.name, directory, options.seed, dataset.name);
}

void check_dataset_fits(const nn::ModelSpec& model, const data::DatasetInfo& dataset,
                        const std::string& model_path) {
  const ops::Shape images{dataset.channels, dataset.height, dataset.width};
  if (model.input_shape != images) {
    throw ConfigError(fmt::format("{}: /input: the network takes images of {}, but {} has {}",
                                  model_path, ops::to_string(model.input_shape), dataset.name,
                                  ops::to_string(images)));
  }
  if (model.classes() < dataset.classes) {
    throw ConfigError(fmt::format("{}: /output: the network has {} outputs, but {} has {} classes",
                                  model_path, model.classes(), dataset.name, dataset.classes));
  }
}

}  // namespace ddpbench::bench
