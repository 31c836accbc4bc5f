// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of known data sets, the search in it, and where a data set is looked for.
#include "datasets/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"
#include "datasets/readers.h"
#include "datasets/synthetic.h"

namespace ddpbench::data {
namespace {

// Sizes and SHA-256 were taken from files whose MD5 sums are those of the originals. MNIST comes
// from the PyTorch project's mirror, which torchvision uses; Fashion-MNIST from its authors'
// server, CIFAR-10 from its authors' (the archive's checksum is also that of TensorFlow Datasets
// and of Red Datasets). Means and deviations were computed from the training images.
const std::vector<CatalogEntry>& rows() {
  static const std::vector<CatalogEntry> entries = {
      {.name = "mnist",
       .base_url = "https://ossci-datasets.s3.amazonaws.com/mnist/",
       .files =
           {
               {"train-images-idx3-ubyte",
                {9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
                {47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"}},
               {"train-labels-idx1-ubyte",
                {28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
                {60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"}},
               {"t10k-images-idx3-ubyte",
                {1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
                {7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"}},
               {"t10k-labels-idx1-ubyte",
                {4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
                {10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
           },
       .channels = 1,
       .height = 28,
       .width = 28,
       .classes = 10,
       .train_samples = 60000,
       .test_samples = 10000,
       .mean = {0.1307},
       .deviation = {0.3081},
       .open = open_idx_dataset,
       .synthesize = make_synthetic_digits,
       .synthesizes = "digits"},
      {.name = "fashion-mnist",
       .base_url = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
       .files =
           {
               {"train-images-idx3-ubyte",
                {26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
                {47040016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"}},
               {"train-labels-idx1-ubyte",
                {29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
                {60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"}},
               {"t10k-images-idx3-ubyte",
                {4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
                {7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"}},
               {"t10k-labels-idx1-ubyte",
                {5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"},
                {10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}},
           },
       .channels = 1,
       .height = 28,
       .width = 28,
       .classes = 10,
       .train_samples = 60000,
       .test_samples = 10000,
       .mean = {0.2860},
       .deviation = {0.3530},
       .open = open_idx_dataset},
      {.name = "cifar10",
       .base_url = "https://www.cs.toronto.edu/~kriz/",
       .files = {{"cifar-10-binary.tar.gz",
                  {},
                  {170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}}},
       .channels = 3,
       .height = 32,
       .width = 32,
       .classes = 10,
       .train_samples = 50000,
       .test_samples = 10000,
       .mean = {0.4914, 0.4822, 0.4465},
       .deviation = {0.2470, 0.2435, 0.2616},
       .open = open_cifar_dataset,
       .synthesize = make_synthetic_images,
       .synthesizes = "images"},
      // Takes the shape and the classes of the network that is trained on it.
      {.name = kSyntheticName,
       .mean = {kSyntheticMean},
       .deviation = {kSyntheticDeviation},
       .synthesize = make_synthetic_images,
       .synthesizes = "images"},
  };
  return entries;
}

SyntheticRequest synthetic_request(const CatalogEntry& entry, const DatasetRequest& request) {
  DatasetInfo info = info_of_files(entry, "");
  info.train_samples = entry.train_samples;
  info.test_samples = entry.test_samples;
  if (entry.takes_any_shape()) {
    info.channels = request.channels;
    info.height = request.height;
    info.width = request.width;
    info.classes = request.classes;
    info.label_height = request.label_height;
    info.label_width = request.label_width;
  }
  return {.info = info, .seed = request.seed, .ignored_label = request.ignored_label};
}

}  // namespace

std::span<const CatalogEntry> catalog() { return rows(); }

const CatalogEntry& find_in_catalog(std::string_view name) {
  const auto found = std::ranges::find(rows(), name, &CatalogEntry::name);
  if (found != rows().end()) return *found;
  const std::vector<std::string> known = known_datasets();
  const auto nearest = nearest_name(std::string(name), known);
  throw ConfigError(fmt::format("unknown data set \"{}\"{} Known are: {}", name,
                                nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : ".",
                                fmt::join(known, ", ")));
}

std::vector<std::string> known_datasets() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : rows()) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> published_datasets() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : rows()) {
    if (!entry.files.empty()) names.emplace_back(entry.name);
  }
  return names;
}

bool fits(const CatalogEntry& entry, std::int64_t channels, std::int64_t height, std::int64_t width,
          std::int64_t outputs) {
  if (entry.takes_any_shape()) return true;
  return entry.channels == channels && entry.height == height && entry.width == width &&
         entry.classes <= outputs;
}

std::unique_ptr<DatasetSource> open_dataset(const DatasetRequest& request) {
  const CatalogEntry& entry = find_in_catalog(request.name);
  if (entry.open == nullptr) return entry.synthesize(synthetic_request(entry, request));
  std::vector<std::string> looked_in;
  for (const std::string& directory : request.directories) {
    if (directory.empty()) continue;
    if (auto source = entry.open(entry, directory)) return source;
    looked_in.push_back(fmt::format("{}/{}", directory, entry.name));
  }
  if (request.synthesize_when_missing && entry.synthesize) {
    return entry.synthesize(synthetic_request(entry, request));
  }
  throw ConfigError(
      fmt::format(
          "data set {} was not found: looked in {}{}. `ddpbench data fetch {}` downloads it; "
          "--data-dir or DDPBENCH_DATA_DIR name another directory that holds {}/",
          entry.name, looked_in.empty() ? "no directory" : "", fmt::join(looked_in, ", "),
          entry.name, entry.name) +
      (request.synthesize_when_missing ? ". It has no synthetic stand-in" : ""));
}

}  // namespace ddpbench::data
