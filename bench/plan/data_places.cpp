// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/data_places.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "datasets/catalog.h"
#include "datasets/fetch.h"
#include "kernels/nn/checkpoint.h"

namespace ddpbench::bench {
namespace fs = std::filesystem;

std::vector<std::string> built_in_models() {
  std::vector<std::string> models;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(install_paths().models(), ignored)) {
    if (entry.path().extension() == ".json") models.push_back(entry.path());
  }
  std::ranges::sort(models);
  return models;
}

std::string find_model(const std::string& name) {
  if (is_file(name)) return name;
  std::vector<std::string> known;
  for (const fs::path path : built_in_models()) {
    if (path.stem() == name) return path;
    known.push_back(path.stem());
  }
  const auto nearest = nearest_name(name, known);
  throw ConfigError(fmt::format("model '{}' is neither a file nor a name in {}{}", name,
                                install_paths().models(),
                                nearest ? fmt::format("; did you mean '{}'?", *nearest) : ""));
}

std::string data_directory(const std::string& given) {
  if (!given.empty()) return given;
  return data::default_data_directory(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
}

namespace {

// "4000 of the 50000 published training samples"; empty when all are there.
std::string subset_words(const data::DatasetInfo& dataset) {
  const data::CatalogEntry& entry = data::find_in_catalog(dataset.name);
  std::vector<std::string> parts;
  const auto compare = [&](std::int64_t there, std::int64_t published, const char* what) {
    if (there >= published) return;
    parts.push_back(fmt::format("{} of the {} published {} samples", there, published, what));
  };
  compare(dataset.train_samples, entry.train_samples, "training");
  compare(dataset.test_samples, entry.test_samples, "test");
  return joined(parts, " and ");
}

std::string synthetic_words(const data::DatasetInfo& dataset, const Options& options) {
  const data::CatalogEntry& entry = data::find_in_catalog(dataset.name);
  const std::string labels =
      dataset.labels_per_sample() == 1
          ? ""
          : fmt::format(" with {} x {} labels each", dataset.label_height, dataset.label_width);
  return fmt::format(
      "synthetic {} of {} in {} classes{}, {} to train and {} to test (seed {})", entry.synthesizes,
      ops::to_string({dataset.channels, dataset.height, dataset.width}), dataset.classes, labels,
      dataset.train_samples, dataset.test_samples, options.seed);
}

}  // namespace

std::string resolve_dataset(Options& options, const nn::ModelSpec& model) {
  std::string note;
  if (options.dataset == kAnyDataset) {
    const ops::Shape& images = model.input_shape;
    const bool maps = model.predictions() > 1;
    const auto found = std::ranges::find_if(data::catalog(), [&](const data::CatalogEntry& entry) {
      if (maps) return entry.takes_any_shape();
      return data::fits(entry, images[0], images[1], images[2], model.classes());
    });
    ensure(found != data::catalog().end(), "no data set takes any network");
    options.dataset = found->name;
    if (maps) {
      note = fmt::format(
          "data set: synthetic, as {} gives logits of {}; --dataset=voc2012 takes files",
          model.name, ops::to_string(model.logits_shape()));
    } else if (found->takes_any_shape()) {
      note = fmt::format(
          "data set: synthetic, because none of {} fits {}, which takes {} and has {} outputs",
          fmt::join(data::published_datasets(), ", "), model.name, ops::to_string(images),
          model.classes());
    }
  }
  const data::CatalogEntry& entry = data::find_in_catalog(options.dataset);
  if (options.dataset_mean.values.empty()) options.dataset_mean.values = entry.mean;
  if (options.dataset_std.values.empty()) options.dataset_std.values = entry.deviation;
  return note;
}

std::unique_ptr<data::DatasetSource> open_data(const Options& options, const nn::ModelSpec& model) {
  if (!options.data_dir.empty() && !is_folder(options.data_dir)) {
    throw ConfigError(fmt::format("--data-dir={}: there is no such directory", options.data_dir));
  }
  // A sample has one label, or a map of labels as large as what the network predicts.
  const ops::Shape labels = model.predictions() == 1 ? ops::Shape{1, 1, 1} : model.logits_shape();
  auto source = data::open_dataset({.name = options.dataset,
                                    .directories = {data_directory(options.data_dir)},
                                    .synthesize_when_missing = options.on_missing == "synthesize",
                                    .seed = options.seed,
                                    .cache_directory = data_directory(""),
                                    .channels = model.input_shape[0],
                                    .height = model.input_shape[1],
                                    .width = model.input_shape[2],
                                    .classes = static_cast<int>(std::min<std::int64_t>(
                                        model.classes(), std::numeric_limits<int>::max())),
                                    .label_height = labels[1],
                                    .label_width = labels[2],
                                    .ignored_label = model.loss.ignore_index});
  if (options.augment && model.predictions() > 1 && !source->info().own_sizes) {
    throw ConfigError(fmt::format(
        "dataset.augment: crops and flips would move the images of {} and not their maps of "
        "labels; do not augment",
        model.name));
  }
  return source;
}

data::DatasetInfo describe_data(const data::DatasetSource& source, const Options& options) {
  data::DatasetInfo info = source.info();
  info.note = info.source == "files" ? subset_words(info) : synthetic_words(info, options);
  return info;
}

SharedMemory decode_samples(data::DatasetSource& source) {
  SharedMemory samples =
      SharedMemory::create("ddpbench-dataset", source.info().decoded_bytes(), true);
  // At once: with a fault a page, a run of some steps takes a sixth longer.
  if (!populate_memory(samples.view())) {
    throw_system_error<DeviceError>("cannot keep the decoded samples in memory", errno);
  }
  source.decode(samples.view().as<std::byte>());
  samples.seal();
  return samples;
}

std::string data_note(const data::DatasetInfo& dataset, const Options& options) {
  if (dataset.source == "files") {
    return fmt::format("data: {} from {}{}{}", dataset.name, dataset.directory,
                       dataset.note.empty() ? "" : ": ", dataset.note);
  }
  if (dataset.name == data::kSyntheticName) return "data: " + dataset.note;
  const std::string_view drawn = data::find_in_catalog(dataset.name).synthesizes;
  const std::string directory = data_directory(options.data_dir);
  return fmt::format(
      "data: {} is not in {}; synthetic {} are drawn in its place (seed {}); `ddpbench data "
      "fetch {}` gets the real ones",
      dataset.name,
      directory.empty() ? "any place (HOME is not set, --data-dir names one)" : directory, drawn,
      options.seed, dataset.name);
}

std::string check_checkpoint(const Options& options, const nn::ModelSpec& model) {
  const std::string& path = options.load_model;
  if (path.empty()) return "";
  std::vector<nn::TensorInfo> tensors;
  try {
    tensors = nn::read_tensor_infos(path);
    nn::match_checkpoint(model, tensors, path);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("--load-model: {}", error.what()));
  }
  std::vector<std::string> notes;
  if (const std::string prefix = nn::wrapper_prefix(model, tensors); !prefix.empty()) {
    notes.push_back(
        fmt::format("the names in {} begin with \"{}\"; that is left out", path, prefix));
  }
  const auto converted = std::ranges::find_if(tensors, [](const nn::TensorInfo& tensor) {
    return tensor.type != DataType::fp32 && tensor.type != DataType::int64;
  });
  if (converted != tensors.end()) {
    notes.push_back(
        fmt::format("{} holds {}, converted to fp32", path, to_string(converted->type)));
  }
  return notes.empty() ? "" : fmt::format("weights: {}", fmt::join(notes, "; "));
}

std::string checkpoint_note(const Options& options, const nn::ModelSpec& model) {
  try {
    return check_checkpoint(options, model);
  } catch (const ConfigError&) {
    return "";
  }
}

void check_dataset_fits(const nn::ModelSpec& model, const data::DatasetInfo& dataset,
                        const std::string& model_path) {
  const ops::Shape images{dataset.channels, dataset.height, dataset.width};
  if (model.input_shape != images) {
    throw ConfigError(
        fmt::format("{}: /input: the network {} takes images of {}, but the data set {} has {}; "
                    "--dataset=auto takes one that fits",
                    model_path, model.name, ops::to_string(model.input_shape), dataset.name,
                    ops::to_string(images)));
  }
  if (model.predictions() != dataset.labels_per_sample()) {
    throw ConfigError(fmt::format(
        "{}: /output: the network gives logits of {}, {} an image, but {} has {} an image; take "
        "another network, or the data set {}",
        model_path, ops::to_string(model.logits_shape()),
        counted(model.predictions(), "prediction"), dataset.name,
        counted(dataset.labels_per_sample(), "label"), data::kSyntheticName));
  }
  if (dataset.own_sizes && model.predictions() > 1 && model.loss.ignore_index != data::kVoidLabel) {
    throw ConfigError(
        fmt::format("{}: /loss: pixels of {} without a class have the label {}; give the loss "
                    "\"ignore_index\": {}",
                    model_path, dataset.name, data::kVoidLabel, data::kVoidLabel));
  }
  if (model.classes() < dataset.classes) {
    throw ConfigError(fmt::format("{}: /output: the network has {} outputs, but {} has {} classes",
                                  model_path, model.classes(), dataset.name, dataset.classes));
  }
}

void check_data_options(const Options& options, const data::DatasetInfo& dataset) {
  const auto channels = static_cast<std::size_t>(dataset.channels);
  for (const auto& [key, given] :
       {std::pair("mean", &options.dataset_mean), {"std", &options.dataset_std}}) {
    const std::size_t count = given->values.size();
    if (count == 1 || count == channels) continue;
    throw ConfigError(
        fmt::format("dataset.{} has {} values, but the images of {} have {}; give one "
                    "for all, or one a channel",
                    key, count, dataset.name, counted(channels, "channel")));
  }
  if (options.residency == "device" && dataset.own_sizes) {
    throw ConfigError(
        fmt::format("--residency=device: images of {} are cut on the host; use --residency=host",
                    dataset.name));
  }
  if (options.until_miou && dataset.labels_per_sample() == 1) {
    throw ConfigError(
        fmt::format("--until-miou={:g}%: {} has one label an image, so there is no map to judge; "
                    "say --until-accuracy",
                    options.until_miou->value, dataset.name));
  }
  const std::optional<Percent>& wanted = options.wanted_accuracy();
  if (!wanted || dataset.test_samples > 0) return;
  throw ConfigError(
      fmt::format("--until-{}={:g}%: {}{} has no test samples, so there is no accuracy to "
                  "reach; give --epochs alone",
                  options.until_miou ? "miou" : "accuracy", wanted->value, dataset.name,
                  dataset.directory.empty() ? "" : fmt::format(" in {}", dataset.directory)));
}

}  // namespace ddpbench::bench
